//! States and hosts that are refused, each with its reason.

use std::fs;

use tcpilot_fleet::manifest::{self, Mark, Policy};
use tcpilot_fleet::{Manifest, format, shard};
use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::key::Key;
use tcpilot_fleet_agent::store::Store;
use tcpilot_fleet_agent::store::dir::DirStore;

use crate::fleet::Fleet;
use crate::support::{group, heard, host, know, knowledge, name, round, run, settings};

/// Puts a made-up host's state with a shard of these bytes.
async fn put_raw(store: &DirStore, shard_bytes: &[u8], number: u16, sequence: u64) {
    let mut marks = vec![Mark::default(); usize::from(shard::SHARDS)];
    marks[usize::from(number)] = Mark {
        sequence,
        bytes: shard_bytes.len() as u32,
    };
    let manifest = Manifest {
        boot: 1,
        sequence: 1,
        software: "9.9".into(),
        policies: vec![Policy {
            name: name("bulk"),
            rows: 1,
            marks,
        }],
    };
    let host = host("x");
    let key = Key::shard(&host, &name("bulk"), number);
    store.put(&key, shard_bytes).await.unwrap();
    let bytes = manifest::encode(&manifest);
    store.put(&Key::manifest(&host), &bytes).await.unwrap();
}

/// A shard with one row, changed and sealed again.
fn shard_with(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut state = knowledge([0], 0.3);
    (state.boot, state.sequence) = (1, 1);
    let mut bytes = format::encode(&state);
    bytes.truncate(bytes.len() - 8);
    change(&mut bytes);
    let sum = format::check_sum(&bytes);
    [bytes, sum.to_le_bytes().to_vec()].concat()
}

/// Bad shards by the reason for which they are refused, with the number under which they are put.
fn bad_shards() -> Vec<(&'static str, Vec<u8>, u16)> {
    let number = shard::shard_of(&group(0), shard::SHARDS);
    let row = shard_with(|_| ()).len() - 8 - 19; // a row of two algorithms has 19 bytes with its family
    let whole = shard_with(|_| ());
    let two_rows = {
        let mut state = knowledge([0, 1], 0.3);
        (state.boot, state.sequence) = (1, 1);
        let bytes = format::encode(&state);
        let (head, rows) = bytes[..bytes.len() - 8].split_at(row);
        let swapped = [head, &rows[19..], &rows[..19]].concat();
        let sum = format::check_sum(&swapped);
        [swapped, sum.to_le_bytes().to_vec()].concat()
    };
    let other_reward = {
        let mut state = knowledge([0], 0.3);
        (state.boot, state.sequence, state.reward) = (1, 1, 8);
        format::encode(&state)
    };
    vec![
        ("version", [&[1], &whole[1..]].concat(), number),
        (
            "damaged",
            [&whole[..40], &[9], &whole[41..]].concat(),
            number,
        ),
        ("cut_off", whole[..5].to_vec(), number),
        ("unordered", two_rows, number),
        ("private", shard_with(|b| b[row + 1] = 10), number),
        (
            "not_finite",
            shard_with(|b| b[row + 11..row + 15].copy_from_slice(&[0, 0, 0xc0, 0x7f])),
            number,
        ),
        (
            "implausible",
            shard_with(|b| b[row + 15..row + 19].copy_from_slice(&[0, 0, 0, 0x43])),
            number,
        ),
        ("misplaced", whole.clone(), (number + 1) % shard::SHARDS),
        ("too_large", vec![1; 131_073], number),
        ("reward", other_reward, number),
    ]
}

#[test]
fn bad_states_are_refused_by_reason() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let number = shard::shard_of(&group(0), shard::SHARDS);
    let whole = shard_with(|_| ());
    let cases = bad_shards();
    run(async {
        let mut reader = fleet.agent("reader");
        for (reason, bytes, number) in &cases {
            if *reason == "too_large" {
                put_raw(&fleet.store(), &whole, *number, 1).await;
                let path = fleet.root.path().join("fleet");
                let key = Key::shard(&host("x"), &name("bulk"), *number).to_string();
                fs::write(path.join(key), bytes).unwrap();
            } else {
                put_raw(&fleet.store(), bytes, *number, 1).await;
            }
            round(&mut reader).await.unwrap();
            let refused = reader.status(boot_s()).heard.refused;
            assert_eq!(refused.get(*reason), Some(&1), "{reason}: {refused:?}");
        }
        let mut good = knowledge([0], 0.3);
        (good.boot, good.sequence) = (1, 2);
        put_raw(&fleet.store(), &format::encode(&good), number, 2).await;
        round(&mut reader).await.unwrap();
        assert_eq!(reader.status(boot_s()).members[0].refused, None);
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 1);
}

#[test]
fn a_refused_update_leaves_the_former_one() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..3, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        let (mut a, mut reader) = (fleet.agent("a"), fleet.agent("reader"));
        round(&mut a).await.unwrap();
        round(&mut reader).await.unwrap();
        let path = fleet.root.path().join("fleet/h.fra1.a.i");
        let mut manifest = fs::read(&path).unwrap();
        manifest[3] ^= 1;
        fs::write(&path, manifest).unwrap();
        round(&mut reader).await.unwrap();
        let status = reader.status(boot_s());
        assert_eq!(status.heard.refused.get("damaged"), Some(&1));
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 3);
}

#[test]
fn two_hosts_of_one_name_are_refused_and_told() {
    let fleet = Fleet::new();
    know(&fleet.folder("twin"), &knowledge(0..3, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let other = fleet.root.path().join("agents/other");
    fs::create_dir_all(other.join("own")).unwrap();
    know(&other, &knowledge(0..3, 0.9));
    let (_, second) = settings(&other, &fleet.text("twin"));
    run(async {
        let mut twins = [
            fleet.agent("twin"),
            Agent::new(second, fleet.store()).unwrap(),
        ];
        let mut reader = fleet.agent("reader");
        for turn in 0..6 {
            round(&mut twins[turn % 2]).await.unwrap();
            round(&mut reader).await.unwrap();
        }
        let status = reader.status(boot_s());
        let reason = status.members[0].refused.clone();
        assert_eq!(reason.as_deref(), Some("two hosts have this name"));
        assert!(status.heard.refused["two_hosts"] >= 1);
        assert!(twins[0].status(boot_s()).said.name_taken >= 2);
        let text = twins[0].status(boot_s()).to_string();
        assert!(text.contains("another host says under this name"), "{text}");
    });
    assert!(heard(&fleet.folder("reader")).is_empty());
}
