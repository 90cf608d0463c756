//! What hosts say, and whom they hear.

use std::fs;

use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::forget::forget;

use crate::fleet::Fleet;
use crate::support::{
    Process, group, heard, host, know, knowledge, round, run, status, wait_until,
};

#[test]
fn hosts_hear_each_other_and_not_themselves() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..10, 0.3));
    know(&fleet.folder("b"), &knowledge(5..15, 0.3));
    know(&fleet.folder("new"), &knowledge([], 0.0));
    run(async {
        let mut agents = [fleet.agent("a"), fleet.agent("b"), fleet.agent("new")];
        for _ in 0..2 {
            for agent in &mut agents {
                round(agent).await.unwrap();
            }
        }
    });
    let to_a = heard(&fleet.folder("a"));
    let expected: Vec<_> = (5..15).map(group).collect();
    assert_eq!(to_a.keys().copied().collect::<Vec<_>>(), expected);
    let to_new = heard(&fleet.folder("new"));
    assert_eq!(to_new.len(), 15);
    assert!(
        to_new.values().all(|mean| (mean - 0.3).abs() < 0.01),
        "{to_new:?}"
    );
}

#[test]
fn unchanged_knowledge_is_said_and_read_once() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..1000, 0.3));
    know(&fleet.folder("b"), &knowledge([], 0.0));
    run(async {
        let (mut a, mut b) = (fleet.agent("a"), fleet.agent("b"));
        for _ in 0..3 {
            round(&mut a).await.unwrap();
            round(&mut b).await.unwrap();
        }
        let (first, read) = (a.status(boot_s()).said, b.status(boot_s()).heard);
        assert!((4..=6).contains(&first.puts), "{first:?}"); // 1000 groups are four sites
        assert_eq!(read.gets, 3 + first.puts - 1, "{read:?}");
        know(&fleet.folder("a"), &knowledge(0..256, 0.5));
        round(&mut a).await.unwrap();
        round(&mut b).await.unwrap();
        let second = a.status(boot_s()).said;
        assert_eq!(
            second.puts - first.puts,
            5,
            "four changed shards and the manifest"
        );
    });
    assert_eq!(
        heard(&fleet.folder("b")).len(),
        256,
        "left-out groups are forgotten"
    );
}

#[test]
fn a_restart_without_the_engine_keeps_what_was_heard() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..3, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        round(&mut fleet.agent("a")).await.unwrap();
        round(&mut fleet.agent("reader")).await.unwrap();
        for file in fs::read_dir(fleet.root.path().join("fleet")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        fs::remove_file(fleet.folder("reader").join("heard/bulk.state")).unwrap();
        round(&mut fleet.agent("reader")).await.unwrap();
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 3);
}

#[test]
fn everything_is_said_again_when_the_engine_lost_it() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..300, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        let mut a = fleet.agent("a");
        round(&mut a).await.unwrap();
        for file in fs::read_dir(fleet.root.path().join("fleet")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        round(&mut a).await.unwrap();
        assert_eq!(a.status(boot_s()).said.said_again, 1);
        round(&mut fleet.agent("reader")).await.unwrap();
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 300);
}

#[test]
fn a_state_that_comes_later_is_heard_at_once() {
    let fleet = Fleet::new();
    let (path, _) = fleet.host("b");
    let text = fs::read_to_string(&path).unwrap();
    let seldom = text.replace("hear_every_s = 0.1", "hear_every_s = 7200");
    fs::write(&path, seldom).unwrap();
    let mut a = fleet.agent("a");
    know(&fleet.folder("a"), &knowledge(0..3, 0.5));
    run(round(&mut a)).unwrap();
    let _b = Process::start(&path);
    let folder = fleet.folder("b");
    wait_until("it runs", || {
        status(&folder).is_some_and(|s| s.uptime_s > 1.5)
    });
    know(&folder, &knowledge(5..6, 0.5));
    wait_until("the other host is heard", || heard(&folder).len() == 3);
}

#[test]
fn a_forgotten_host_is_heard_after_its_restart() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..10, 0.3));
    know(&fleet.folder("b"), &knowledge([], 0.0));
    run(async {
        let (mut a, mut b) = (fleet.agent("a"), fleet.agent("b"));
        round(&mut a).await.unwrap();
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 10);
        forget(&fleet.store(), &host("a")).await.unwrap();
        round(&mut a).await.unwrap();
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 0);
        let refused = b.status(boot_s()).members[0].refused.clone().unwrap();
        assert!(refused.starts_with("forgotten"), "{refused}");
        drop(b);
        let mut b = fleet.agent("b");
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 0, "nor after a restart");
        drop(a);
        round(&mut fleet.agent("a")).await.unwrap();
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 10);
    });
}

#[test]
fn more_hosts_than_sixteen_are_left_out_aloud() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        for i in 0..20 {
            let name = format!("h{i}");
            know(&fleet.folder(&name), &knowledge([i], 0.3));
            round(&mut fleet.agent(&name)).await.unwrap();
        }
        let mut reader = fleet.agent("reader");
        round(&mut reader).await.unwrap();
        let status = reader.status(boot_s());
        assert_eq!((status.members.len(), status.heard.left_out), (16, 4));
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 16);
}

#[test]
fn a_liar_among_five_moves_little() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        for i in 0..5 {
            let name = format!("h{i}");
            let mean = if i == 0 { 3.0 } else { 0.3 };
            know(&fleet.folder(&name), &knowledge(0..50, mean));
            round(&mut fleet.agent(&name)).await.unwrap();
        }
        let mut reader = fleet.agent("reader");
        round(&mut reader).await.unwrap();
        let status = reader.status(boot_s());
        let liar = status.members.iter().find(|member| member.host == "h0");
        assert!(
            liar.unwrap().trust.is_none_or(|trust| trust < 0.1),
            "{liar:?}"
        );
    });
    let means = heard(&fleet.folder("reader"));
    assert!(
        means.values().all(|mean| (mean - 0.3).abs() < 0.1),
        "{means:?}"
    );
}
