//! Hosts that hear each other, through kills, partitions, lost data and a full disk.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::store::Store;

use crate::fleet::{Fleet, hears, key, two_processes};
use crate::server::is_missing;
use crate::support::{
    Process, Stops, heard, know, knowledge, output, round, run, settings, status, wait_until,
};

#[test]
fn hosts_hear_each_other_by_nats() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..2000, 0.3));
    know(&fleet.folder("b"), &knowledge(1000..3000, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        for host in ["a", "b", "reader"] {
            round(&mut fleet.agent(host)).await.unwrap();
        }
    });
    let means = heard(&fleet.folder("reader"));
    assert_eq!(means.len(), 3000);
    assert!(means.values().all(|mean| (mean - 0.3).abs() < 0.01));
}

#[test]
fn acknowledged_puts_survive_kills_of_the_server() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::new();
    let mut acknowledged = [0u64; 64];
    let mut counter = 0u64;
    for turn in 0..12 {
        let a = fleet.store("a");
        let after = Duration::from_millis(30 + 37 * turn);
        std::thread::scope(|scope| {
            let server = &mut fleet.server;
            scope.spawn(move || {
                std::thread::sleep(after);
                server.kill();
            });
            run(async {
                loop {
                    counter += 1;
                    let number = (counter % 64) as u16;
                    match a.put(&key("a", number), &counter.to_le_bytes()).await {
                        Ok(()) => acknowledged[usize::from(number)] = counter,
                        Err(_) => break,
                    }
                }
            });
        });
        fleet.server.begin();
        let a = fleet.store("a");
        run(async {
            for (number, known) in acknowledged
                .iter()
                .enumerate()
                .filter(|(_, known)| **known > 0)
            {
                let start = Instant::now();
                let entry = loop {
                    match a.get(&key("a", number as u16)).await {
                        Ok(entry) => break entry.unwrap(),
                        Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                };
                let found = u64::from_le_bytes(entry.value.try_into().unwrap());
                // The one that was under way when the server died may be there, too.
                assert!(
                    found == *known || found == counter,
                    "turn {turn}: {found}, {known}"
                );
            }
        });
    }
    assert!(counter > 500, "only {counter} puts");
}

#[test]
fn an_agent_killed_between_any_two_steps_harms_nothing() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    for killed_after in 0..16 {
        let mean = 0.1 + 0.3 * f64::from(killed_after % 2);
        know(
            &fleet.folder("a"),
            &knowledge((0..10).map(|i| i << 8), mean),
        );
        run(async {
            let store = fleet.store("a");
            let stops = Stops {
                store: &store,
                calls_left: Cell::new(killed_after),
            };
            let mut agent = Agent::new(fleet.host("a").1, stops).unwrap();
            let saying = agent.say(boot_s());
            let _ = tokio::time::timeout(Duration::from_millis(700), saying).await;
            drop(agent);
            round(&mut fleet.agent("reader")).await.unwrap();
            let means = heard(&fleet.folder("reader"));
            assert!(
                means.is_empty() || means.len() == 10,
                "{killed_after}: {means:?}"
            );
            fleet.agent("a").say(boot_s()).await.unwrap();
            let mut reader = fleet.agent("reader");
            round(&mut reader).await.unwrap();
            assert!(reader.status(boot_s()).heard.refused.is_empty());
        });
        let means = heard(&fleet.folder("reader"));
        assert_eq!(means.len(), 10);
        assert!(
            means.values().all(|found| (found - mean).abs() < 0.02),
            "{means:?}"
        );
    }
}

#[test]
fn agents_outlive_kills_of_the_server() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::new();
    let _both = two_processes(&fleet);
    for mean in [0.6, 0.1, 0.5] {
        fleet.server.kill();
        wait_until("the agent notices", || {
            status(&fleet.folder("a")).is_some_and(|status| !status.engine.reached)
        });
        assert_eq!(heard(&fleet.folder("reader")).len(), 10);
        fleet.server.begin();
        hears(&fleet, mean);
    }
}

#[test]
fn a_stopped_server_is_a_partition() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let _both = two_processes(&fleet);
    fleet.server.signal(Signal::STOP);
    for host in ["a", "reader"] {
        wait_until("the agent notices", || {
            let status = status(&fleet.folder(host));
            status.is_some_and(|status| status.engine.failed.contains_key("unreachable"))
        });
        let (is_good, text) = output(&fleet.host(host).0, "status");
        assert!(
            is_good && text.contains("engine   the engine cannot be reached"),
            "{text}"
        );
    }
    assert_eq!(
        heard(&fleet.folder("reader")).len(),
        10,
        "what was heard stays"
    );
    fleet.server.signal(Signal::CONT);
    hears(&fleet, 0.6);
}

#[test]
fn a_server_that_lost_its_data_gets_all_again() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::new();
    let _both = two_processes(&fleet);
    fleet.server.kill();
    fleet.server.lose_data();
    fleet.server.begin();
    wait_until("the agents name the missing bucket", || {
        let status = status(&fleet.folder("a"));
        status.is_some_and(|status| status.engine.failed.contains_key("not_set_up"))
    });
    let (is_good, text) = output(&fleet.host("admin").0, "init");
    assert!(is_good, "{text}");
    hears(&fleet, 0.6);
    assert_eq!(status(&fleet.folder("a")).unwrap().said.said_again, 1);
}

#[test]
fn two_hosts_of_one_name_are_told_by_nats() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (_a, _reader) = two_processes(&fleet);
    let other = fleet.root.path().join("agents/other");
    fs::create_dir_all(other.join("own")).unwrap();
    know(&other, &knowledge((0..10).map(|i| i << 8), 0.9));
    let (path, _) = settings(&other, &fleet.server.settings("a"));
    let _twin = Process::start(&path);
    wait_until("the reader refuses both", || {
        let status = status(&fleet.folder("reader"));
        status.is_some_and(|status| status.heard.refused.contains_key("two_hosts"))
    });
    wait_until("each of the two knows", || {
        let told = |folder: &Path| status(folder).is_some_and(|status| status.said.name_taken > 0);
        told(&fleet.folder("a")) && told(&other)
    });
}

#[test]
fn a_full_disk_of_the_server_takes_nothing_heard() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::on_disk("8m");
    let _both = two_processes(&fleet);
    let data = fleet.server.folder.join("data");
    let inside = format!("/proc/{}/root{}", fleet.server.pid(), data.display());
    let ballast = Path::new(&inside).join("ballast");
    let mut size = 8 << 20;
    while size > 4096 && fs::write(&ballast, vec![1; size]).is_err() {
        size -= 4096;
    }
    // 4,000 groups are 70 kB, said again and again.
    let groups = || (0..100).flat_map(|i| (0..40).map(move |j| (i << 8) + j));
    let mut mean = 0.3;
    wait_until("the agent says that it failed", || {
        mean = 0.9 - mean;
        know(&fleet.folder("a"), &knowledge(groups(), mean));
        let engine = status(&fleet.folder("a")).unwrap().engine;
        engine.failed.values().sum::<u64>() >= 2
    });
    let means = heard(&fleet.folder("reader"));
    assert!(means.len() == 10 || means.len() == 4000, "{}", means.len());
    // nats-server 2.9.10 answers nothing any more, even with room again. Its disk ends with it.
    fleet.server.kill();
    fleet.server.begin();
    let (is_good, text) = output(&fleet.host("admin").0, "init");
    assert!(is_good, "{text}");
    hears(&fleet, 0.2);
}
