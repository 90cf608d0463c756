use super::*;
use proptest::prelude::*;
use tcpilot_random::Random;

const HOME: (&str, &str) = ("fra", "me");

fn group(i: u32) -> Group {
    Group::new(0xffff_0808_0000 + (u128::from(i) << 8), 13).unwrap()
}

/// A host's knowledge of 40 groups: truths of -0.3, 0 and 0.3 in turn, seen with deviation `sd`, moved by `lie`.
fn host(number: u64, sd: f64, lie: f64) -> Groups<2> {
    let mut random = Random::of(&[number, 77]);
    let truth = |i: u32| 0.3 * (f64::from(i % 3) - 1.0);
    (0..40)
        .map(|i| {
            let mean = truth(i) + sd * random.normal() + lie;
            (group(i), Information::isotropic(mean, sd))
        })
        .collect()
}

fn place(hosts: impl Iterator<Item = Groups<2>>) -> Place<2> {
    hosts
        .enumerate()
        .map(|(i, groups)| (format!("h{i:02}"), groups))
        .collect()
}

fn honest(count: u64) -> Place<2> {
    place((0..count).map(|i| host(i, 0.3, 0.0)))
}

fn merged_with(places: Place<2>) -> Merged<2> {
    merge(
        HOME,
        &Groups::new(),
        &BTreeMap::from([("fra".to_owned(), places)]),
    )
}

fn mean(merged: &Merged<2>, i: u32) -> f64 {
    merged.foreign[&group(i)].belief().unwrap().mean[0]
}

#[test]
fn honest_hosts_agree_on_the_truth() {
    let merged = merged_with(honest(30));
    assert!((mean(&merged, 0) + 0.3).abs() < 0.15 && (mean(&merged, 2) - 0.3).abs() < 0.15);
    assert!(merged.hosts.values().all(|width| width.unwrap() < 0.25));
    assert_eq!(merged.hosts.len(), 30);
}

#[test]
fn own_words_never_come_back() {
    let mut places = honest(3);
    let alone = merged_with(places.clone());
    places.insert("me".to_owned(), host(99, 0.1, 2.0));
    assert_eq!(merged_with(places), alone);
}

#[test]
fn names_and_their_order_do_not_matter() {
    let one = merged_with(honest(9));
    let other: Place<2> = honest(9)
        .into_iter()
        .map(|(name, x)| {
            (
                format!("{}", 9 - name.len()) + &name.chars().rev().collect::<String>(),
                x,
            )
        })
        .collect();
    let other = merged_with(other);
    for (group, said) in &one.foreign {
        let twin = &other.foreign[group];
        assert!((said.trace() - twin.trace()).abs() < 1e-9 * said.trace());
        assert!((said.shift[0] - twin.shift[0]).abs() < 1e-9 * said.trace());
    }
}

#[test]
fn an_extreme_liar_is_not_heard() {
    let mut hosts = honest(9);
    hosts.insert("liar".to_owned(), host(100, 0.01, 3.0));
    let merged = merged_with(hosts);
    assert_eq!(merged.hosts[&("fra".to_owned(), "liar".to_owned())], None);
    let clean = merged_with(honest(9));
    assert!((mean(&merged, 1) - mean(&clean, 1)).abs() < 0.05);
}

#[test]
fn a_place_unlike_home_counts_little() {
    let far = place((20..29).map(|i| {
        host(i, 0.3, 0.0)
            .into_iter()
            .map(|(g, mut x)| {
                x.shift = x.shift.map(|y| -3.0 * y);
                (g, x)
            })
            .collect()
    }));
    let near = place((40..49).map(|i| host(i, 0.3, 0.0)));
    let places = [("ams", far), ("fra", honest(9)), ("sin", near)];
    let places = BTreeMap::from(places.map(|(name, hosts)| (name.to_owned(), hosts)));
    let merged = merge(HOME, &Groups::new(), &places);
    assert!(
        merged.places["ams"] > 3.0 * merged.places["sin"],
        "{:?}",
        merged.places
    );
    assert_eq!(merged.places["fra"], HOME_GUESS);
    let high: f64 = (0..13).map(|i| mean(&merged, 3 * i + 2) / 13.0).sum();
    assert!((high - 0.3).abs() < 0.1, "{high}");
}

#[test]
fn without_hosts_nothing_is_heard() {
    let merged = merged_with(Place::new());
    assert!(merged.foreign.is_empty() && merged.hosts.is_empty() && merged.places.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The bound is what one of eleven members may do, whatever it says of all groups alike.
    #[test]
    fn no_member_moves_a_mean_far(lie in -3.5f64..3.5, sd in 0.001f64..2.0, seed in 200u64..10_000) {
        let clean = merged_with(honest(10));
        let mut hosts = honest(10);
        hosts.insert("liar".to_owned(), host(seed, sd, lie));
        let merged = merged_with(hosts);
        for i in 0..40 {
            let moved = (mean(&merged, i) - mean(&clean, i)).abs();
            prop_assert!(moved < 0.15, "{i}: {moved}");
        }
    }
}
