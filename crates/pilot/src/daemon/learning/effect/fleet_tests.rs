//! The comparison of made-up records of sites. No time passes but by the tests.

use super::*;

const START: f64 = 1_795_003_200.5;
const SECRETS: AssignmentSecrets = [7, 6, 5, 4, 3, 2, 1];

fn keys() -> Keys {
    Keys {
        hold_out_percent: 20,
        rotation_s: 50,
        block_s: 5,
        settle_s: 1,
        connections_min: 2,
        ..Keys::default()
    }
}

fn open(keys: &Keys, saved: Saved) -> FleetEffect {
    FleetEffect::open(keys, saved.with_secrets(SECRETS), Clock::new(START))
}

fn new(keys: &Keys) -> FleetEffect {
    open(keys, Saved::default())
}

fn record(site: u8, class: u16, clock: &Clock) -> tp_record {
    let address = u32::from_be_bytes([8, site, 7, 7]);
    // The clock goes faster than the kernel's.
    let opened_ns = ((clock.now_s() - clock.seconds(0)) * 1e9) as u64;
    tp_record {
        remote: [0, 0, 0xffff_u32.to_be(), address.to_be()],
        opened_ns,
        bytes_acked: 1_000_000,
        busy_ticks: 1000,
        segments: 700,
        srtt_us: 20_000,
        min_rtt_us: 20_000,
        class,
        ..tp_record::default()
    }
}

/// Connections to a hundred sites for this long: with the fleet they are faster by a gain, but only the first ones.
fn run(effect: &mut FleetEffect, seconds: u32, gain: f64) {
    for second in 0..seconds {
        for site in 0..100 {
            for is_first in [true, false] {
                let mut record = record(site, 14, &effect.clock);
                let hears = !effect.is_held_back(&lineage(&record).group);
                let gain = if hears && is_first { gain } else { 0.0 };
                // Sites differ by far more than the effect.
                let usual = 1000.0 * (f64::from(site) / 50.0).exp();
                record.busy_ticks = (usual * (-gain).exp()) as u32 + (second + u32::from(site)) % 7;
                effect.take(&record, is_first, 250);
            }
        }
        effect.clock.catch_up(effect.clock.now_s() + 1.0);
        effect.turn();
    }
}

#[test]
fn a_gain_at_first_connections_is_shown_apart() {
    let mut effect = new(&keys());
    run(&mut effect, 350, 0.2);
    let report = effect.report();
    let [first, later] = [&report.first, &report.later].map(|of| &of.measures[0]);
    assert!(report.first.pairs > 60, "{report:?}");
    assert_eq!(
        (first.name.as_str(), first.verdict.as_str()),
        ("goodput", "better"),
        "{first:?}"
    );
    assert!((first.change.unwrap() - 0.22).abs() < 0.1, "{first:?}");
    assert_eq!(
        later.pairs_missing.is_some(),
        later.verdict == "insufficient data"
    );
    let around_0 = later.low.unwrap() < 0.0 && later.high.unwrap() > 0.0;
    assert!(around_0, "{later:?}");
}

#[test]
fn before_the_first_pair_it_says_what_is_missing() {
    let mut effect = new(&keys());
    run(&mut effect, 20, 0.2);
    let report = effect.report();
    assert_eq!((report.first.pairs, report.held_back_percent), (0, 20));
    let goodput = &report.first.measures[0];
    assert_eq!(goodput.interval_pairs_missing, Some(20));
    let in_s = goodput.interval_in_s.unwrap();
    assert!((20..400).contains(&in_s), "{in_s}");
}

#[test]
fn one_secret_holds_the_same_sites_back_in_all_classes() {
    let (effect, other) = (new(&keys()), new(&keys()));
    let held_back = |effect: &FleetEffect, class| -> Vec<bool> {
        let of = |site| lineage(&record(site, class, &effect.clock)).group;
        (0..200)
            .map(|site| effect.is_held_back(&of(site)))
            .collect()
    };
    let sites = held_back(&effect, 14);
    let count = sites.iter().filter(|is| **is).count();
    assert!((20..60).contains(&count), "{count}");
    assert_eq!(sites, held_back(&other, 9));
    let secrets = Saved::default().with_secrets([9; 7]);
    let stranger = FleetEffect::open(&keys(), secrets, Clock::new(START));
    assert_ne!(sites, held_back(&stranger, 14));
    // The number of a site is part of what hosts of different versions agree on.
    let site = lineage(&record(9, 14, &effect.clock)).site;
    assert_eq!(number_of(&site), 15_721_421_532_029_213_527);
    let period = effect.period();
    effect.clock.catch_up(effect.clock.now_s() + 50.0);
    assert_eq!(effect.period(), period + 1);
    assert_ne!(sites, held_back(&effect, 14));
}

#[test]
fn results_survive_a_restart_but_not_another_share() {
    let mut effect = new(&keys());
    run(&mut effect, 120, 0.2);
    let before = effect.report();
    let rows = effect.unsaved(true);
    assert_eq!(rows.policy, POLICY);
    let now_s = effect.clock.now_s();
    let again = |keys: &Keys| {
        let saved = Saved::of(rows.rows.clone());
        let clock = Clock::new(now_s);
        FleetEffect::open(keys, saved.with_secrets(SECRETS), clock)
    };
    let mut went_on = again(&keys());
    let report = went_on.report();
    let closed = |report: &FleetReport| (report.first.pairs, report.later.connections);
    assert!(before.first.pairs > 20, "{before:?}");
    assert_eq!(closed(&report), closed(&before));
    assert_eq!(report.since_unix_s, before.since_unix_s);
    // Open blocks go on, too.
    run(&mut went_on, 60, 0.2);
    run(&mut effect, 60, 0.2);
    assert_eq!(went_on.report().first.pairs, effect.report().first.pairs);
    // With another share other sites are held back: what is closed stays, and what is open is dropped.
    let mut other = Keys {
        hold_out_percent: 10,
        ..keys()
    };
    let less = again(&other);
    assert_eq!(less.report().first.pairs, before.first.pairs);
    let has_open = |effect: &FleetEffect| {
        let is_open = |group| serde_json::to_value(group).unwrap().get("open").is_some();
        effect.trials[0].groups().any(|(_, group)| is_open(group))
    };
    assert!(!has_open(&less));
    other.hold_out_percent = 20;
    assert!(has_open(&again(&other)));
}
