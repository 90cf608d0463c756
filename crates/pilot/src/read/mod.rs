//! Turns the structures of the BPF programs into figures for people: [`crate::figures`].

mod tuning;

use tcpilot_abi::{
    TP_CONN_ACTIVE, TP_CONN_DRY_RUN, TP_CONN_SIDE_UNKNOWN, TP_TUNE_COUNT, Why, tp_config, tp_flow,
};
use tcpilot_config::tune_word;

use crate::figures::{FlowView, measure::some};

/// The names of the BPF programs' numbers for arms, policies and namespaces, the time, and the configuration.
pub struct Names<'a> {
    /// Arms in their order.
    pub arms: &'a [String],
    /// Name of a policy.
    pub policy: &'a dyn Fn(u8) -> String,
    /// Name of a network namespace, from its inode number.
    pub netns: &'a dyn Fn(u32) -> String,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub now_ns: u64,
    /// The kernel side's configuration.
    pub config: &'a tp_config,
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Names<'_> {
    /// The number of windows of this length from an epoch to the present.
    pub(super) fn behind(&self, epoch: u32, window_ns: u64) -> u32 {
        let now = self.now_ns.checked_div(window_ns).unwrap_or(0) & u64::from(u32::MAX);
        (now as u32).wrapping_sub(epoch)
    }

    fn age_s(&self, at_ns: u64) -> f64 {
        let ns = self.now_ns.saturating_sub(at_ns);
        (ns as f64 / 1e9 * 10.0).round() / 10.0
    }

    fn arm(&self, number: u8) -> Option<String> {
        self.arms.get(usize::from(number)).cloned()
    }

    /// The view of a live connection.
    pub fn flow(&self, f: &tp_flow) -> FlowView {
        FlowView {
            netns: (self.netns)(f.netns_inum),
            local: endpoint(f.local, f.local_port),
            remote: endpoint(f.remote, f.remote_port),
            algorithm: text(&f.cc),
            why: Why::from_number(f.why).word().to_owned(),
            charged_to: self.arm(f.arm),
            policy: (self.policy)(f.policy),
            side: side(f.flags),
            srtt_us: some(f.srtt_us),
            min_rtt_us: some(f.min_rtt_us),
            delivery_rate: some(f.delivery_rate),
            app_limited: f.app_limited != 0,
            loss_ratio: ratio(f.lost_packets.into(), f.sent_packets.into()),
            bytes_acked: f.bytes_acked,
            cwnd: f.cwnd_packets,
            ssthresh: some(f.ssthresh_packets),
            age_s: (f.opened_ns > 0).then(|| self.age_s(f.opened_ns)),
            dry_run: u32::from(f.flags) & TP_CONN_DRY_RUN != 0,
            tunings: words(f.tuned),
            initial_window: some(f.iw_packets),
            inode: some(f.inode),
            cgroup_id: some(f.cgroup_id),
            processes: Vec::new(),
            pids: Vec::new(),
            cgroup: None,
            pods: Vec::new(),
        }
    }
}

/// The names of the tunings whose bits are set.
fn words(bits: u8) -> Vec<String> {
    (0..TP_TUNE_COUNT)
        .filter(|tune| bits >> tune & 1 == 1)
        .map(|tune| tune_word(tune).to_owned())
        .collect()
}

fn side(flags: u8) -> String {
    let flags = u32::from(flags);
    if flags & TP_CONN_SIDE_UNKNOWN != 0 {
        "either"
    } else if flags & TP_CONN_ACTIVE != 0 {
        "connect"
    } else {
        "accept"
    }
    .to_owned()
}

fn endpoint(words: [u32; 4], port: u16) -> String {
    std::net::SocketAddr::new(address(words), port).to_string()
}

/// An address from BPF: 128 bits in network order, IPv4 as IPv4-mapped.
pub fn address(words: [u32; 4]) -> std::net::IpAddr {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    std::net::Ipv6Addr::from(bytes).to_canonical()
}

fn text(chars: &[std::ffi::c_char]) -> String {
    chars
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| char::from(*c as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_shown_as_ipv4() {
        let words = [
            0,
            0,
            u32::from_ne_bytes([0, 0, 0xff, 0xff]),
            u32::from_ne_bytes([10, 0, 0, 1]),
        ];
        assert_eq!(endpoint(words, 80), "10.0.0.1:80");
        let words = [
            u32::from_ne_bytes([0x20, 1, 0xd, 0xb8]),
            0,
            0,
            u32::from_ne_bytes([0, 0, 0, 1]),
        ];
        assert_eq!(endpoint(words, 80), "[2001:db8::1]:80");
    }
}
