//! Other sockops programs on the same cgroup.

use tcpilot_host_tests::{FAR, Lab, Neighbour, arm};

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
