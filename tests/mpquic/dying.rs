//! The death of a link in the middle of a transfer, unnoticed by both hosts.

use std::time::{Duration, Instant};

use tcpilot_tests::until;

use crate::links::{Links, number, report};

const BYTES: u64 = 12_000_000;
/// Enough for slow start to be over.
const BEFORE: u64 = 2_000_000;
/// Bytes of 0.2 s on the living link: more than probes, and less than a window.
const PROGRESS: u64 = 500_000;

/// Kills link `dead` of two: the other soon carries on, and everything arrives.
fn survives(dead: u8) {
    let living = format!("l{}", 3 - dead);
    let net = Links::new(2, 1, "--quic");
    let running = net.start(&format!(
        "--transport mpquic --path 10.2.1.1=10.2.1.2 --cc olia --wait 10 --bytes {BYTES}"
    ));
    until("half of a second is through", || {
        (net.sent_bytes("l1") > BEFORE && net.sent_bytes("l2") > BEFORE).then_some(())
    });
    net.kill(dead);
    let died = Instant::now();
    let sent = net.sent_bytes(&living);
    until("the other link goes on", || {
        (net.sent_bytes(&living) > sent + PROGRESS).then_some(())
    });
    let standstill = died.elapsed();
    let report = report(running);
    assert!(report["error"].is_null(), "{report}");
    assert_eq!(report["bytes"], BYTES);
    assert!(standstill < Duration::from_millis(1500), "{standstill:?}");
    assert!(number(&report, "standstill_seconds") < 1.5, "{report}");
    // At most the time of the rest on one link, and a second and a half.
    let alone = (BYTES - 2 * BEFORE) as f64 * 8.0 / 19e6;
    let seconds = number(&report, "elapsed_seconds");
    assert!(
        seconds < 1.0 + alone + 1.5,
        "{seconds} s, {alone} s alone: {report}"
    );
}

/// Kills link `dead` of two until its path is closed, and a while longer: then the path is used again.
fn comes_back(dead: u8) {
    let (gone, living) = (format!("l{dead}"), format!("l{}", 3 - dead));
    let net = Links::new(2, 1, "--quic");
    let running = net.start(&format!(
        "--transport mpquic --path 10.2.1.1=10.2.1.2 --cc lia --wait 10 --bytes {}",
        2 * BYTES
    ));
    until("half of a second is through", || {
        (net.sent_bytes("l1") > BEFORE && net.sent_bytes("l2") > BEFORE).then_some(())
    });
    net.kill(dead);
    let sent = net.sent_bytes(&living);
    until("the other link carries all of it for a second", || {
        (net.sent_bytes(&living) > sent + 4 * PROGRESS).then_some(())
    });
    net.revive(dead);
    let sent = net.sent_bytes(&gone);
    let back = Instant::now();
    until("the link that came back is used", || {
        (net.sent_bytes(&gone) > sent + PROGRESS).then_some(())
    });
    assert!(
        back.elapsed() < Duration::from_millis(1500),
        "{:?}",
        back.elapsed()
    );
    let report = report(running);
    assert!(report["error"].is_null(), "{report}");
    assert_eq!(report["bytes"], 2 * BYTES);
    assert!(number(&report, "standstill_seconds") < 1.5, "{report}");
    // One path for each link, with all its bytes before and after.
    let paths = report["paths"].as_array().unwrap();
    let acked: Vec<_> = paths.iter().map(|p| number(p, "acked_bytes")).collect();
    assert_eq!(acked.len(), 2, "{report}");
    let all = acked.iter().sum::<f64>() / (2 * BYTES) as f64;
    assert!((0.95..1.05).contains(&all), "{report}");
    assert!(acked[usize::from(dead) - 1] > (BEFORE + PROGRESS) as f64 * 0.9);
}

#[test]
fn returning_second_link_is_used_again() {
    comes_back(2);
}

#[test]
fn returning_first_link_is_used_again() {
    comes_back(1);
}

#[test]
fn transfer_survives_loss_of_second_link() {
    survives(2);
}

/// By which the server acknowledges everything.
#[test]
fn transfer_survives_loss_of_first_link() {
    survives(1);
}
