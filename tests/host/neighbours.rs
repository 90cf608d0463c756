//! Other sockops programs on the same cgroup.

use tcpilot_tests::{FAR, Lab, Neighbour, Sink, arm};

use crate::ALWAYS_BBR;

#[test]
fn the_callback_flags_of_a_program_that_came_first_survive() {
    let lab = Lab::new();
    let neighbour = Neighbour::attach(lab.cgroup.path());
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    assert!(neighbour.rtt_calls() > 0);
    assert_eq!(arm(&pilot.path("10.77.0.2"), "bbr")["samples"], 1);
}

#[test]
fn a_program_that_comes_later_gets_its_callbacks_and_we_ours() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let neighbour = Neighbour::attach(lab.cgroup.path());
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    assert!(neighbour.rtt_calls() > 0);
    assert_eq!(arm(&pilot.path("10.77.0.2"), "bbr")["samples"], 1);
}

/// `BPF_SOCK_OPS_STATE_CB_FLAG` of linux/bpf.h.
const STATES: u32 = 1 << 2;

#[test]
fn a_connection_from_before_our_start_is_not_ours_because_another_program_follows_it() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let _neighbour = Neighbour::attach_asking_for(lab.cgroup.path(), STATES);
    let mut old = lab.actor();
    old.tell(&format!("connect {FAR}:5300"));
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    old.tell("send 100000");
    old.tell("close");
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(2);
    let path = pilot.path(FAR);
    assert_eq!(
        (&path["connections"], &path["live_flows"]),
        (&2.into(), &0.into()),
        "{path}"
    );
}
