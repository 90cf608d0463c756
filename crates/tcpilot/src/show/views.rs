//! What the commands show, as data: built by the daemon, printed by [`crate::show::table`] or as JSON.
//!
//! Rates are bytes per second, RTTs microseconds, ages seconds. `null` means that there is no sample.

use serde::{Deserialize, Serialize};
use tcpilot_abi::{
    TP_CONN_ACTIVE, TP_CONN_DRY_RUN, TP_CONN_SIDE_UNKNOWN, TP_DECISIONS, TP_ECN_NOT_NEGOTIATED,
    TP_ECN_OTHER_NET, TP_ECN_PUBLIC, TP_ECN_UNASKED, Why, tp_config, tp_decision, tp_flow, tp_path,
    tp_path_key, tp_policy_config, tp_window32, tp_window64,
};
use tcpilot_core::{learner, prefix::Prefix};

pub use crate::show::tuning_views::{CohortView, TuneView, TuningView, TuningsStatus};

/// What names the numbers of the kernel side: arms, policies, namespaces; and the clocks' now.
pub struct Names<'a> {
    /// Arms in their order.
    pub arms: &'a [String],
    /// Name of a policy.
    pub policy: &'a dyn Fn(u8) -> String,
    /// Name of a network namespace, from its inode number.
    pub netns: &'a dyn Fn(u32) -> String,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub now_ns: u64,
    /// What the kernel side was given.
    pub config: &'a tp_config,
}

/// One path, as `tcpilot paths --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathView {
    /// Remote addresses.
    pub prefix: Prefix,
    /// Network namespace: `host`, its name, or its inode number.
    pub netns: String,
    /// Policy that it falls under.
    pub policy: String,
    /// Windowed minimum.
    pub min_rtt_us: Option<u32>,
    /// Smoothed over connections.
    pub srtt_us: Option<u32>,
    /// Windowed maximum, application-limited samples left out.
    pub max_delivery_rate: Option<u64>,
    /// Maximum of the last 30 s, packets.
    pub ssthresh: Option<u32>,
    /// Live connections.
    pub live_flows: u32,
    /// All connections ever.
    pub connections: u64,
    /// Retransmitted share of the segments sent in the window.
    pub loss_ratio: Option<f64>,
    /// Since the last open or close.
    pub age_s: f64,
    /// Its algorithms, in the configuration's order.
    pub algorithms: Vec<AlgorithmView>,
}

impl PathView {
    /// The most recently used first.
    pub fn sort(views: &mut [PathView]) {
        views.sort_by(|a, b| {
            a.age_s
                .total_cmp(&b.age_s)
                .then_with(|| a.prefix.cmp(&b.prefix))
        });
    }
}

/// An algorithm of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlgorithmView {
    /// Its name.
    pub name: String,
    /// Lower is better, 1 000 000 is one whole minimum RTT above, or all of the rate below, the best seen.
    pub cost: Option<u64>,
    /// Connections that got it.
    pub chosen: u32,
    /// Of those, because its cost was least.
    pub greedy: u32,
    /// Connections that it was judged by.
    pub samples: u32,
    /// Connections that had to be rescued from it.
    pub rescued: u32,
    /// Windowed minimum.
    pub min_rtt_us: Option<u32>,
    /// Windowed maximum.
    pub max_delivery_rate: Option<u64>,
    /// Probability that the next connection gets it, 0 to 1.
    pub share: f64,
    /// Why it may not be chosen here, though the policy has it; `null` where it may.
    pub not_eligible: Option<String>,
}

/// A choice that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionView {
    /// How long ago.
    pub age_s: f64,
    /// The algorithm; none: the kernel's default stayed.
    pub algorithm: Option<String>,
    /// One word.
    pub why: String,
    /// A sentence.
    pub because: String,
    /// `connect` or `accept`; `either` where it was not kept.
    pub side: String,
    /// This host's port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// Decided, but not set.
    pub dry_run: bool,
}

/// One live connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowView {
    /// Network namespace.
    pub netns: String,
    /// This host's address and port.
    pub local: String,
    /// The peer's address and port.
    pub remote: String,
    /// The congestion control in force, read from the socket.
    pub algorithm: String,
    /// Why, one word.
    pub why: String,
    /// The algorithm that its cost is charged to.
    pub charged_to: Option<String>,
    /// Policy.
    pub policy: String,
    /// `connect` or `accept`; `either` where it was not kept.
    pub side: String,
    /// Smoothed RTT.
    pub srtt_us: Option<u32>,
    /// Minimum RTT.
    pub min_rtt_us: Option<u32>,
    /// Last delivery rate sample.
    pub delivery_rate: Option<u64>,
    /// Whether the application limited that sample.
    pub app_limited: bool,
    /// Retransmitted share of the segments sent.
    pub loss_ratio: Option<f64>,
    /// Bytes the peer acknowledged.
    pub bytes_acked: u64,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Slow start threshold, packets.
    pub ssthresh: Option<u32>,
    /// Since it was opened; remembered only where the algorithm was changed.
    pub age_s: Option<f64>,
    /// Decided, but not set.
    pub dry_run: bool,
    /// Tunings in force, by name.
    pub tunings: Vec<String>,
    /// Initial window that was set, packets.
    pub initial_window: Option<u32>,
}

/// Why connections to an address are treated as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The address asked about.
    pub address: String,
    /// Its paths, one for each namespace and policy that saw it.
    pub paths: Vec<ExplainedPath>,
    /// Its live connections, those left alone included.
    pub flows: Vec<FlowView>,
}

/// A path with its last decisions, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedPath {
    /// The path.
    pub path: PathView,
    /// At most eight.
    pub decisions: Vec<DecisionView>,
    /// What is tuned on it; `null` where nothing is.
    pub tuning: Option<TuningView>,
}

pub(crate) fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// The halves of a window that still count at this epoch.
fn live_halves<T: Default>(current: T, previous: T, epoch: u32, now: u32) -> (T, T) {
    match now.wrapping_sub(epoch) {
        0 => (current, previous),
        1 => (T::default(), current),
        _ => (T::default(), T::default()),
    }
}

fn max_of(window: &tp_window64, epoch: u32, now: u32) -> Option<u64> {
    let (a, b) = live_halves(window.current, window.previous, epoch, now);
    some(a.max(b))
}

pub(crate) fn max32_of(window: &tp_window32, epoch: u32, now: u32) -> Option<u32> {
    let (a, b) = live_halves(window.current, window.previous, epoch, now);
    some(a.max(b))
}

fn min_of(window: &tp_window32, epoch: u32, now: u32) -> Option<u32> {
    let (a, b) = live_halves(window.current, window.previous, epoch, now);
    [a, b].into_iter().filter(|v| *v != 0).min()
}

fn sum_of(window: &tp_window64, epoch: u32, now: u32) -> u64 {
    let (a, b) = live_halves(window.current, window.previous, epoch, now);
    a.saturating_add(b)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Names<'_> {
    pub(crate) fn epoch(&self, window_ns: u64) -> u32 {
        (self.now_ns.checked_div(window_ns).unwrap_or(0) & u64::from(u32::MAX)) as u32
    }

    fn age_s(&self, at_ns: u64) -> f64 {
        let ns = self.now_ns.saturating_sub(at_ns);
        (ns as f64 / 1e9 * 10.0).round() / 10.0
    }

    fn arm(&self, number: u8) -> Option<String> {
        self.arms.get(usize::from(number)).cloned()
    }

    /// A path of the map as people see it.
    /// None where the key is not one of ours.
    pub fn path(&self, key: &tp_path_key, path: &tp_path) -> Option<PathView> {
        let now = self.epoch(self.config.window_ns);
        let sent = sum_of(&path.sent_packets, path.epoch, now);
        let lost = sum_of(&path.lost_packets, path.epoch, now);
        Some(PathView {
            prefix: Prefix::from_key(key)?,
            netns: (self.netns)(path.netns_inum),
            policy: (self.policy)(key.policy),
            min_rtt_us: min_of(&path.min_rtt_us, path.epoch, now),
            srtt_us: some(path.srtt_us),
            max_delivery_rate: max_of(&path.max_delivery_rate, path.epoch, now),
            ssthresh: max32_of(
                &path.ssthresh_packets,
                path.ssthresh_epoch,
                self.epoch(self.config.ssthresh_window_ns),
            ),
            live_flows: path.live_flows,
            connections: path.connections,
            loss_ratio: ratio(lost, sent),
            age_s: self.age_s(path.updated_ns),
            algorithms: self.algorithms_of(
                path,
                self.config.policy.get(usize::from(key.policy))?,
                now,
            ),
        })
    }

    /// Why an arm that needs ECN may not be chosen on a path, as far as the last connection there shows
    /// it: whether ECN is negotiated is known only per connection. One that was chosen before may be
    /// again when the next connection negotiates it.
    fn barred(
        &self,
        policy: &tp_policy_config,
        path: &tp_path,
        arm: usize,
    ) -> Option<&'static str> {
        if self.config.ecn_arms & policy.arms & 1 << arm == 0 {
            return None;
        }
        let vouched = policy.ecn_vouched >> arm & 1 == 1;
        let learned = path.learner.arms.get(arm);
        let chosen = learned.is_some_and(|arm| arm.chosen > 0);
        match u32::from(path.ecn) {
            TP_ECN_UNASKED => Some("it needs ECN, and no connection has been decided here yet"),
            TP_ECN_NOT_NEGOTIATED => {
                (!chosen).then_some("it needs ECN, which the last connection did not negotiate")
            }
            TP_ECN_PUBLIC if !vouched => Some(
                "it is not for the public Internet (RFC 8257), and no policy lists it for these \
                 connections",
            ),
            TP_ECN_OTHER_NET if !vouched => Some(
                "this path is not taken for a data center's, and no policy lists it for these \
                 connections",
            ),
            _ => None,
        }
    }

    fn algorithms_of(
        &self,
        path: &tp_path,
        policy: &tp_policy_config,
        now: u32,
    ) -> Vec<AlgorithmView> {
        let barred: Vec<_> = (0..path.arms.len())
            .map(|arm| self.barred(policy, path, arm))
            .collect();
        let free = barred.iter().enumerate().filter(|(_, why)| why.is_none());
        let eligible = policy.arms & free.fold(0, |mask, (i, _)| mask | 1 << i);
        let shares = learner::shares(&self.config.learner, &path.learner, eligible);
        let known = path.learner.arms.iter().zip(&path.arms);
        let arms = self.arms.iter().zip(known).zip(shares).zip(barred);
        arms.map(|(((name, (learned, arm)), share), barred)| AlgorithmView {
            name: name.clone(),
            cost: (learned.samples > 0).then_some(learned.cost),
            chosen: learned.chosen,
            greedy: learned.greedy,
            samples: learned.samples,
            rescued: arm.rescued,
            min_rtt_us: min_of(&arm.min_rtt_us, arm.epoch, now),
            max_delivery_rate: max_of(&arm.max_delivery_rate, arm.epoch, now),
            share,
            not_eligible: barred.map(str::to_owned),
        })
        .collect()
    }

    /// The decisions that a path remembers, newest first.
    pub fn decisions(&self, path: &tp_path) -> Vec<DecisionView> {
        let made = path.decision_seq.min(TP_DECISIONS);
        let newest_first =
            (1..=made).map(|back| path.decision_seq.wrapping_sub(back) % TP_DECISIONS);
        newest_first
            .filter_map(|slot| path.decisions.get(slot as usize))
            .map(|d| self.decision(d))
            .collect()
    }

    fn decision(&self, d: &tp_decision) -> DecisionView {
        let why = Why::from_number(d.why);
        DecisionView {
            age_s: self.age_s(d.at_ns),
            algorithm: self.arm(d.arm),
            why: why.word().to_owned(),
            because: why.sentence().to_owned(),
            side: side(d.flags),
            local_port: d.local_port,
            remote_port: d.remote_port,
            dry_run: d.dry_run == 1,
        }
    }

    /// A live connection as people see it.
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
            tunings: crate::show::tuning_views::words(f.tuned),
            initial_window: some(f.iw_packets),
        }
    }
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

/// An address of the kernel side: 128 bits in network order, IPv4 as IPv4-mapped.
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

/// What is running.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Of tcpilot.
    pub version: String,
    /// The daemon's.
    pub pid: u32,
    /// `uname -r`.
    pub kernel: String,
    /// The cgroup whose sockets are steered.
    pub cgroup: String,
    /// Since it started.
    pub uptime_s: u64,
    /// Deciding without setting.
    pub dry_run: bool,
    /// Still attached.
    pub attached: bool,
    /// The learner's name.
    pub learner: String,
    /// The algorithms that may be chosen.
    pub algorithms: Vec<String>,
    /// Algorithms that were asked for and are not there, with the reason.
    pub algorithms_missing: Vec<String>,
    /// What a heavy loss switches to.
    pub rescue: Option<String>,
    /// Paths in the map.
    pub paths: u32,
    /// Its bound.
    pub paths_max: u32,
    /// Connections opened since the start, by reason.
    pub connections: std::collections::BTreeMap<String, u64>,
    /// Steered connections that ended.
    pub closed: u64,
    /// Those that an algorithm was judged by.
    pub charged: u64,
    /// Connections switched after heavy loss.
    pub rescues: u64,
    /// What does not work as it should, a sentence each.
    pub degraded: Vec<String>,
    /// What was tuned beside the algorithm; `null` where nothing is to be.
    pub tunings: Option<TuningsStatus>,
    /// Calls of the sockops program; 0 unless kernel.bpf_stats_enabled is 1.
    pub bpf_events: u64,
    /// Time in it.
    pub bpf_ns: u64,
    /// The daemon's resident memory.
    pub resident_bytes: u64,
    /// Where the state is kept.
    pub state: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_of_the_last_window_counts_and_an_older_one_does_not() {
        let window = tp_window64 {
            current: 5,
            previous: 9,
        };
        assert_eq!(max_of(&window, 7, 7), Some(9));
        assert_eq!(max_of(&window, 7, 8), Some(5));
        assert_eq!(max_of(&window, 7, 9), None);
    }

    #[test]
    fn the_least_rtt_ignores_an_empty_half() {
        let window = tp_window32 {
            current: 0,
            previous: 40,
        };
        assert_eq!(min_of(&window, 1, 1), Some(40));
    }

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
