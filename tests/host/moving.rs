//! With the learner in the daemon: long connections. They send records while they live, and some get another
//! algorithm.

use serde_json::Value;
use tcpilot_abi::{
    TP_CONN_MOVED, TP_LEVEL_GLOBAL, TP_RECORD_MOVED, TP_RECORD_RESCUED, TP_RECORD_SAMPLE,
    TP_TRIAL_HELD_OUT, TP_WITHHELD_ALREADY, Why, tp_config, tp_record,
};
use tcpilot_core::choice_dist::DistPlace;
use tcpilot_kernel::{ASSIGNMENT_BUCKETS, MoveRequest};
use tcpilot_tests::{Actor, Daemon, FAR, Lab, Sink, until};

use crate::{
    learner::{ALL_BBR, ALL_RENO, BBR, Learner, RENO, config},
    rescue::{OTHER, lossy_way, rescuing, send_until, way},
};

/// The least bytes of a long connection here.
const LONG: u32 = 500_000;

fn sampling(config: tp_config) -> tp_config {
    tp_config {
        sample_bytes: LONG.into(),
        ..config
    }
}

/// Connects and sends enough to be reported.
fn open_long(lab: &Lab, address: &str) -> Actor {
    let mut application = lab.actor();
    application.tell(&format!("connect {address}:5300"));
    send_more(&mut application);
    application
}

/// Sends enough to make a connection a long one, and waits until it has arrived.
fn send_more(application: &mut Actor) {
    application.tell(&format!("send {LONG}"));
    application.tell("info");
}

/// The record of the open connection now; asks for these moves.
fn sample(learner: &mut Learner, moves: &[MoveRequest]) -> tp_record {
    learner.ends.sampler.sample(moves).unwrap();
    learner.record()
}

fn emitted(record: &tp_record) -> (u32, u8, Why) {
    let why = Why::from_number(record.why);
    (u32::from(record.flags), record.arm, why)
}

#[test]
fn a_move_emits_a_record_for_each_segment() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &sampling(config()));
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_RENO, 1);
    let mut application = open_long(&lab, FAR);
    let first = sample(&mut learner, &[]);
    assert_eq!(emitted(&first), (TP_RECORD_SAMPLE, RENO, Why::Drawn));
    let wanted = MoveRequest {
        cookie: first.cookie,
        from: RENO,
        to: BBR,
    };
    let left = sample(&mut learner, &[wanted]);
    let moved = TP_RECORD_SAMPLE | TP_RECORD_MOVED;
    assert_eq!(emitted(&left), (moved, RENO, Why::Drawn));
    assert_eq!(application.tell("cc"), "bbr");
    send_more(&mut application);
    // A request holds for one look.
    let next = sample(&mut learner, &[]);
    assert_eq!(emitted(&next), (TP_RECORD_SAMPLE, BBR, Why::Moved));
    assert!(
        next.bytes_acked >= left.bytes_acked + u64::from(LONG),
        "{next:?}"
    );
    let flows = learner.pilot.flows().unwrap();
    assert_eq!(flows.len(), 1);
    assert_eq!(
        (Why::from_number(flows[0].why), flows[0].arm),
        (Why::Moved, BBR)
    );
    application.tell("close");
    let end = learner.record();
    assert_eq!(emitted(&end), (0, BBR, Why::Moved));
    assert_eq!(u32::from(end.conn_flags) & TP_CONN_MOVED, TP_CONN_MOVED);
    assert_eq!(end.cookie, first.cookie);
    assert_eq!(learner.pilot.counters().moves, 1);
}

/// Whether a long connection is moved from reno to bbr, if `before` happened.
fn is_moved(config: &tp_config, before: impl FnOnce(&mut Learner, &mut Actor), from: u8) -> bool {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &sampling(*config));
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_RENO, 1);
    let mut application = open_long(&lab, FAR);
    let cookie = sample(&mut learner, &[]).cookie;
    before(&mut learner, &mut application);
    let wanted = MoveRequest {
        cookie,
        from,
        to: BBR,
    };
    learner.ends.sampler.sample(&[wanted]).unwrap();
    let is_moved = application.tell("cc") == "bbr";
    assert_eq!(learner.pilot.counters().moves, u64::from(is_moved));
    is_moved
}

#[test]
fn nobody_is_moved_who_may_not_be() {
    let nothing = |_: &mut Learner, _: &mut Actor| {};
    assert!(is_moved(&config(), nothing, RENO));
    assert!(
        !is_moved(&config(), nothing, BBR),
        "it had another algorithm"
    );
    let dry_run = tp_config {
        dry_run: 1,
        ..config()
    };
    assert!(!is_moved(&dry_run, nothing, RENO));
    let mut without = config();
    without.policy[0].arms = 1 << RENO;
    assert!(
        !is_moved(&without, nothing, RENO),
        "no algorithm of its policy"
    );
    // The last one is the present algorithm: still the application's choice.
    for choice in ["cubic", "reno"] {
        let choose = |_: &mut Learner, application: &mut Actor| {
            application.tell(&format!("cc {choice}"));
        };
        assert!(!is_moved(&config(), choose, RENO), "{choice}");
    }
    let stop = |learner: &mut Learner, _: &mut Actor| {
        let all = Box::new([TP_TRIAL_HELD_OUT as u8; ASSIGNMENT_BUCKETS]);
        learner.ends.assignment_buckets.set(&all);
    };
    assert!(
        !is_moved(&config(), stop, RENO),
        "the guard has stopped steering"
    );
}

#[test]
fn a_held_out_connection_is_not_moved() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &sampling(config()));
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let all = |trial: u32| Box::new([trial as u8; ASSIGNMENT_BUCKETS]);
    learner.ends.assignment_buckets.set(&all(TP_TRIAL_HELD_OUT));
    let mut application = open_long(&lab, FAR);
    // New connections are steered from now on.
    learner.ends.assignment_buckets.set(&all(0));
    let first = sample(&mut learner, &[]);
    assert_eq!(emitted(&first), (TP_RECORD_SAMPLE, RENO, Why::HeldOut));
    let wanted = MoveRequest {
        cookie: first.cookie,
        from: RENO,
        to: BBR,
    };
    let second = sample(&mut learner, &[wanted]);
    assert_eq!(emitted(&second), (TP_RECORD_SAMPLE, RENO, Why::HeldOut));
    assert_eq!(application.tell("cc"), "reno");
}

#[test]
fn a_moved_connection_may_be_rescued() {
    let lab = Lab::new();
    let _way = lossy_way(&lab);
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &sampling(rescuing()));
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let mut application = open_long(&lab, OTHER);
    until("bbr needs no rescue", || {
        learner.ends.heartbeat.renew();
        send_more(&mut application);
        let counters = learner.pilot.counters();
        (counters.withheld[TP_WITHHELD_ALREADY as usize] == 1).then_some(())
    });
    let cookie = sample(&mut learner, &[]).cookie;
    let wanted = MoveRequest {
        cookie,
        from: BBR,
        to: RENO,
    };
    let left = sample(&mut learner, &[wanted]);
    assert_eq!(u32::from(left.flags), TP_RECORD_SAMPLE | TP_RECORD_MOVED);
    // Its choice distribution gives reno no share, but the rescue's algorithm is bbr.
    assert_eq!(send_until(&learner, &mut application, "bbr", 20), "bbr");
    let rescued = learner.record();
    assert_eq!(
        emitted(&rescued),
        (TP_RECORD_SAMPLE | TP_RECORD_RESCUED, RENO, Why::Moved)
    );
}

/// A daemon that looks at long connections each second.
const CONFIG: &str = r#"
    algorithms = ["reno", "bbr"]
    replace_defaults = ["reno"]
    [learner]
    kind = "thompson"
    sample_s = 1
    sample_bytes = 200000
    move_long = true
    [rescue]
    algorithm = ""
    [effect]
    hold_out_percent = 0
"#;

fn learning(pilot: &Daemon, figure: &str) -> u64 {
    pilot.status()["learning"][figure].as_u64().unwrap()
}

#[test]
fn a_long_connection_is_learned_in_segments() {
    let lab = Lab::new();
    let _way = way(&lab, "", "tbf rate 40mbit burst 15kb latency 50ms");
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(CONFIG);
    for is_taken_over in [false, true] {
        let before = learning(&pilot, "updates");
        let mut application = lab.actor();
        application.tell(&format!("connect {OTHER}:5300"));
        until("it has updated the learner twice", || {
            application.tell("send 200000");
            (learning(&pilot, "updates") >= before + 2).then_some(())
        });
        application.tell("info"); // waits until all has arrived
        let seen = learning(&pilot, "records");
        until("all of it was emitted of", || {
            application.tell("send 1");
            (learning(&pilot, "records") >= seen + 2).then_some(())
        });
        if is_taken_over {
            pilot.take_over();
        }
        // With the take-over it starts again.
        let updates = learning(&pilot, "updates");
        let closed = pilot.status()["closed"].as_u64().unwrap();
        application.tell("close");
        until("its end is known", || {
            (pilot.status()["closed"].as_u64()? > closed).then_some(())
        });
        let why = if is_taken_over {
            "known-in-part"
        } else {
            "short"
        };
        until("its record is rejected", || {
            let rejected = pilot.status()["learning"]["rejected"].take();
            (rejected[why].as_u64()? > 0).then_some(())
        });
        assert_eq!(learning(&pilot, "updates"), updates, "{}", pilot.status());
    }
}

/// Opens connections until one has reno.
fn open_with_reno(lab: &Lab, address: &str) -> Actor {
    let mut application = lab.actor();
    application.tell(&format!("connect {address}:5300"));
    while application.tell("cc") != "reno" {
        application.tell("close");
        application.tell(&format!("connect {address}:5300"));
    }
    application
}

fn path_to(pilot: &Daemon, address: &str) -> Value {
    pilot.ask(&format!("explain {address}"))["paths"][0]["path"].take()
}

#[test]
fn a_daemon_moves_a_connection_once_sure() {
    let lab = Lab::new();
    let _way = lossy_way(&lab);
    // Otherwise almost no connection would get reno, once it is known to be worse.
    let pilot = lab.pilot(&CONFIG.replace("sample_s", "default_floor_permille = 400\nsample_s"));
    lab.upload(OTHER, 40, 500_000);
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut long = open_with_reno(&lab, OTHER);
    let mut rounds = 0..400; // beside many namespaces the daemon looks seldom
    while long.tell("cc") != "bbr" {
        let known = || path_to(&pilot, OTHER);
        assert!(rounds.next().is_some(), "{} {}", pilot.status(), known());
        long.tell("send 300000");
    }
    assert_eq!(pilot.status()["moves"], 1);
    let flows = pilot.ask("flows");
    let flow = &flows.as_array().unwrap()[0];
    assert_eq!(
        (&flow["why"], &flow["charged_to"]),
        (&"moved".into(), &"bbr".into())
    );
    until("the path's count is known", || {
        (pilot.path(OTHER)["moved"] == 1).then_some(())
    });
    // It is reported with its new algorithm, and stays as it is.
    let updates = learning(&pilot, "updates");
    until("it has updated the learner again", || {
        long.tell("send 1000000");
        (learning(&pilot, "updates") >= updates + 3).then_some(())
    });
    assert_eq!(long.tell("cc"), "bbr");
    assert_eq!(pilot.status()["moves"], 1);
}

#[test]
fn a_daemon_that_is_not_sure_moves_nobody() {
    let lab = Lab::new();
    let _way = way(&lab, "", "tbf rate 40mbit burst 15kb latency 50ms");
    let pilot = lab.pilot(&CONFIG.replace("sample_s", "default_floor_permille = 400\nsample_s"));
    lab.upload(OTHER, 40, 500_000);
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut long = open_with_reno(&lab, OTHER);
    let updates = learning(&pilot, "updates");
    until("it has updated the learner often", || {
        long.tell("send 300000");
        (learning(&pilot, "updates") >= updates + 4).then_some(())
    });
    assert_eq!(long.tell("cc"), "reno");
    assert_eq!(pilot.status()["moves"], 0);
}
