//! `tcpilot watch` where a kernel has VLANs.

use tcpilot_host_tests::{Lab, PORT, Place, Watching};

#[test]
fn a_tagged_flow_is_measured_as_any_other() {
    let lab = Lab::new();
    for (netns, host) in [(&lab.net.near, 1), (&lab.net.far, 2)] {
        netns.ip("link add link eth0 name eth0.7 type vlan id 7");
        netns.ip(&format!("addr add 10.78.0.{host}/24 dev eth0.7"));
        netns.ip("link set eth0.7 up");
    }
    let watching = Watching::start(Place::outside(&lab.net.near), "eth0", &[]);
    let to = format!("10.78.0.2:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    watching.until(&to, |look| {
        let flow = look.to(&to)?;
        let number = |key: &str| flow[key].as_u64().unwrap_or_default();
        (number("rate") > 1_000_000 && number("queue_us") > 0 && number("rounds") > 10)
            .then_some(())
    });
}
