use super::*;

const START: u64 = 1_795_003_200; // a whole hour

fn outcome(goodput_nats: f64) -> Outcome {
    Outcome {
        bytes: 1 << 20,
        goodput_nats,
        duration_nats: 0.0,
        retransmitted: 0.0,
        inflation_nats: 0.0,
        expected_nats: 0.0,
    }
}

fn schedule() -> Schedule {
    Schedule::by_time(1.0, [1, 2])
}

/// A connection a minute for so many hours, with this gain while steered.
fn run(trial: &mut Trial, group: u64, from_s: u64, hours: u64, gain: f64) {
    for minute in 0..60 * hours {
        let at_s = from_s + 60 * minute;
        let steered = schedule().steers(group, at_s);
        let seen = outcome(if steered { gain } else { 0.0 });
        trial.take(group, at_s, &seen, &schedule(), &Terms::default());
    }
}

fn close(trial: &mut Trial, now_s: u64) -> Vec<Alarm> {
    trial.close_until(now_s, &schedule(), &Terms::default())
}

#[test]
fn each_hour_is_a_pair_with_gain() {
    let mut trial = Trial::default();
    run(&mut trial, 9, START, 30, 0.2);
    close(&mut trial, START + 30 * 3600);
    // The last hour is over, but some of its connections may still be open.
    assert_eq!(trial.host.effects.goodput.count, 29);
    close(&mut trial, START + 30 * 3600 + 1800);
    assert_eq!(trial.host.effects.goodput.count, 30);
    let (mean, sd) = trial.host.effects.goodput.moments().unwrap();
    assert!((mean - 0.2).abs() < 1e-12 && sd < 1e-6);
    // Two minutes at each end of each half hour do not count.
    assert_eq!(trial.host.effects.connections, 30 * 52);
}

#[test]
fn connection_may_outlive_its_pair_a_block() {
    let mut trial = Trial::default();
    run(&mut trial, 9, START, 1, 0.2);
    assert!(close(&mut trial, START + 3600 + 1799).is_empty());
    assert!(trial.take(
        9,
        START + 600,
        &outcome(9.0),
        &schedule(),
        &Terms::default()
    ));
    close(&mut trial, START + 3600 + 1800);
    let before = trial.clone();
    assert!(!trial.take(
        9,
        START + 600,
        &outcome(9.0),
        &schedule(),
        &Terms::default()
    ));
    assert_eq!(trial, before);
}

#[test]
fn pair_needs_connections_on_both_sides() {
    let mut trial = Trial::default();
    for minute in 0..34 {
        let at_s = START + 60 * minute;
        trial.take(9, at_s, &outcome(0.0), &schedule(), &Terms::default());
    }
    close(&mut trial, START + 7200);
    assert_eq!(trial.host.effects.goodput.count, 0);
}

#[test]
fn forgotten_groups_stay_in_host_sums() {
    let terms = Terms {
        groups_max: 4,
        ..Terms::default()
    };
    let mut trial = Trial::default();
    for group in 0..10 {
        for minute in 0..120 {
            let at_s = START + 7200 * group + 60 * minute;
            trial.take(group, at_s, &outcome(0.0), &schedule(), &terms);
            trial.close_until(at_s, &schedule(), &terms);
        }
    }
    assert_eq!(trial.groups().count(), 4);
    assert!(trial.host.effects.goodput.count >= 10);
}

#[test]
fn harm_stops_the_group_and_then_the_host() {
    let mut trial = Trial::default();
    let mut alarms = Vec::new();
    for hour in 0..60 {
        for group in 0..12 {
            // An equal gain or harm in each pair has no spread, so few pairs show it.
            let gain = if group == 0 { -0.5 } else { 0.0 };
            run(&mut trial, group, START + 3600 * hour, 1, gain);
        }
        let now_s = START + 3600 * (hour + 1) + 1800;
        alarms.extend(
            close(&mut trial, now_s)
                .into_iter()
                .map(|a| (a.group, now_s)),
        );
        if let Some((_, at_s)) = alarms.first() {
            assert_eq!(
                trial
                    .stopped(*at_s)
                    .map(|(group, _)| group)
                    .collect::<Vec<_>>(),
                [0]
            );
        }
    }
    assert_eq!(alarms[0].0, Some(0), "{alarms:?}");
    assert!(alarms.iter().any(|alarm| alarm.0.is_none()), "{alarms:?}");
    assert!(
        alarms
            .iter()
            .all(|alarm| [None, Some(0)].contains(&alarm.0)),
        "{alarms:?}"
    );
}

/// Weeks of a hundred prefixes; they differ by far more than the effect of steering.
fn weeks(count: u64, gain: f64) -> Trial {
    let schedule = Schedule::by_prefix(0.2, [3, 4]);
    let (mut trial, terms) = (Trial::default(), Terms::default());
    let week_s = schedule.period_s;
    for week in 0..count {
        for group in 0..100 {
            let at_s = START + week_s * week;
            let own = (group % 10) as f64 * 0.3 + 0.02 * ((group * 7 + week * 13) % 5) as f64;
            let gained = if schedule.steers(group, at_s) {
                gain
            } else {
                0.0
            };
            for _ in 0..6 {
                trial.take(group, at_s, &outcome(own + gained), &schedule, &terms);
            }
        }
        let end_s = START + week_s * (week + 1) + 1800;
        trial.close_until(end_s, &schedule, &terms);
    }
    trial
}

#[test]
fn held_out_prefixes_use_others_and_past() {
    let trial = weeks(12, 0.1);
    let pairs = trial.host.effects.goodput;
    // A fifth of a hundred prefixes each week.
    assert!((190..290).contains(&pairs.count), "{}", pairs.count);
    let found = pairs.interval(&Sequence::default()).unwrap();
    assert!(found.low > 0.0 && found.high < 0.2, "{found:?}");
    let none = weeks(12, 0.0).host.effects.goodput;
    let found = none.interval(&Sequence::default()).unwrap();
    assert!(found.low < 0.0 && found.high > 0.0, "{found:?}");
}

#[test]
fn group_without_history_is_assumed_average() {
    let schedule = Schedule::by_prefix(0.2, [3, 4]);
    let (mut trial, terms) = (Trial::default(), Terms::default());
    for week in 0..20 {
        // Each week has five unseen groups. The level is a megabyte a second.
        for group in (0..60).chain(1000 + 5 * week..1005 + 5 * week) {
            let at_s = START + schedule.period_s * week;
            for _ in 0..6 {
                let own = 13.8 + 0.02 * ((group * 7 + week * 13) % 5) as f64;
                trial.take(group, at_s, &outcome(own), &schedule, &terms);
            }
        }
        trial.close_until(
            START + schedule.period_s * (week + 1) + 1800,
            &schedule,
            &terms,
        );
    }
    let pairs = trial.host.effects.goodput;
    let (mean, sd) = pairs.moments().unwrap();
    assert!(
        pairs.count > 150 && mean.abs() < 0.01 && sd < 0.05,
        "{mean} {sd}"
    );
    let text = serde_json::to_value(pairs).unwrap();
    assert!(text["covariate_square"].as_f64().unwrap() < 1.0, "{text}");
}

#[test]
fn saved_trial_goes_on_without_false_future() {
    let mut trial = Trial::default();
    run(&mut trial, 9, START, 3, 0.2);
    close(&mut trial, START + 3 * 3600);
    let mut saved = trial.clone();
    let groups: HashMap<u64, Group> = saved
        .unsaved(false)
        .into_iter()
        .map(|(id, group)| {
            let text = serde_json::to_string(group.unwrap()).unwrap();
            (id, serde_json::from_str(&text).unwrap())
        })
        .collect();
    let text = serde_json::to_string(&trial.host).unwrap();
    let host: Host = serde_json::from_str(&text).unwrap();
    let number = schedule().number(START + 3 * 3600);
    let mut restored = Trial::restore(host, groups.clone(), number);
    for trial in [&mut trial, &mut restored] {
        close(trial, START + 4 * 3600);
    }
    assert_eq!(
        (&restored.host, restored.groups),
        (&trial.host, trial.groups)
    );

    // The clock had been a day ahead.
    let mut earlier = Trial::restore(host, groups, number - 27);
    run(&mut earlier, 9, START - 86_400, 2, 0.2);
    close(&mut earlier, START - 86_400 + 3 * 3600);
    assert_eq!(
        earlier.host.effects.goodput.count,
        host.effects.goodput.count + 2
    );
}

#[test]
fn nothing_is_unsaved_twice() {
    let mut trial = Trial::default();
    run(&mut trial, 9, START, 1, 0.2);
    assert_eq!(trial.unsaved(false).len(), 1);
    assert!(trial.unsaved(false).is_empty());
    assert_eq!(trial.unsaved(true).len(), 1);
    trial.break_off();
    assert_eq!(trial.unsaved(false).len(), 1);
}
