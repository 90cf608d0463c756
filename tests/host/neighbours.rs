//! Other sockops programs on the same cgroup.

use tcpilot_tests::{FAR, Lab, Neighbour, Sink, arm};

use crate::ALWAYS_BBR;

#[test]
fn callback_flags_of_earlier_program_survive() {
    let lab = Lab::new();
    let neighbour = Neighbour::attach(lab.cgroup.path());
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    assert!(neighbour.rtt_calls() > 0);
    assert_eq!(arm(&pilot.path("10.77.0.2"), "bbr")["samples"], 1);
}

#[test]
fn later_program_and_ours_both_get_callbacks() {
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
fn other_programs_callbacks_do_not_adopt_old_connections() {
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
