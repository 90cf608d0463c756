//! The table of flows, read once a second. Each look finds new flows, and forgets ended ones. A report
//! of the whole time forgets no flow, and has the means over each flow's life.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Instant,
};

use tcpilot_abi::{
    TP_FLOW_CLOSED, TP_FLOW_HANDSHAKE, TP_FLOW_LIGHT, TP_FLOW_QUIC, TP_FLOW_SHARE, TP_FLOW_SPIN,
    TP_REASON_P4AIR, tp_watch_flow,
};
use tcpilot_kernel::clock::monotonic_ns;
use tcpilot_kernel::watch::{Watch, left_bytes};
use tcpilot_show::failure::Failure;

use super::{model::Models, unseen::Unseen, views::View};
use crate::{
    args::Classifier,
    link::{Device, FlowView, Group, Protocol, REASONS},
};

/// Time without packets until a flow is forgotten; a closed flow is forgotten sooner.
const IDLE_S: u64 = 60;
const CLOSED_S: u64 = 5;
/// A flow counts as a user of the link for this time after its last packet.
const ACTIVE_S: u64 = 3;

/// A flow's counters at the look before.
#[derive(Clone, Copy, Default)]
struct Before {
    bytes: u64,
    /// When the bytes were last seen to grow.
    moved_ns: u64,
    sojourn_sum_us: u64,
    sojourn_samples: u32,
}

/// Makes a flow's figures. It holds the part common to all flows.
pub struct Viewer<'a> {
    /// The device, or the capture.
    pub place: &'a str,
    /// The classifier.
    pub classifier: Classifier,
    /// The names of the classes.
    pub models: &'a Models,
    /// The present.
    pub now_ns: u64,
}

/// The period of a flow's means: its counts at the begin, and its length.
pub struct Period {
    before: Before,
    passed_s: f64,
}

impl Period {
    /// A flow's whole life.
    pub fn life(flow: &tp_watch_flow) -> Period {
        let life_ns = flow.seen_ns.saturating_sub(flow.born_ns);
        Period {
            before: Before::default(),
            passed_s: (life_ns as f64 / 1e9).max(1e-3),
        }
    }
}

/// Looks at flows.
pub struct Flows<'a> {
    classifier: Classifier,
    models: &'a Models,
    of_life: bool,
    start: Instant,
    last: Instant,
    before: HashMap<u32, Before>,
    unseen: Unseen,
}

impl<'a> Flows<'a> {
    /// Has seen nothing yet.
    pub fn new(classifier: Classifier, models: &'a Models) -> Flows<'a> {
        Flows {
            classifier,
            models,
            of_life: false,
            start: Instant::now(),
            last: Instant::now(),
            before: HashMap::new(),
            unseen: Unseen::default(),
        }
    }

    /// The models behind the verdicts.
    pub fn models(&self) -> &'a Models {
        self.models
    }

    /// Starts now. `of_life`: for one report at the end, over the flows' whole lives.
    pub fn begin(&mut self, of_life: bool) {
        self.of_life = of_life;
        (self.start, self.last) = (Instant::now(), Instant::now());
    }

    /// Reads the table, forgets ended flows, and gives the programs the number of flows on the link.
    pub fn look(&mut self, watch: &mut Watch, device: &Device) -> Result<View, Failure> {
        let now_ns = monotonic_ns();
        let passed_s = self.last.elapsed().as_secs_f64().max(1e-3);
        self.last = Instant::now();
        let viewer = Viewer {
            place: device.name(),
            classifier: self.classifier,
            models: self.models,
            now_ns,
        };
        let (mut flows, mut seen, mut long) = (Vec::new(), HashMap::new(), 0);
        for (slot, flow) in watch.flows() {
            // In light tracking the programs see a packet of a flow now and then.
            let before = self.before.get(&flow.id);
            let moved_ns = match before {
                Some(before) if before.bytes == left_bytes(&flow) => before.moved_ns,
                Some(_) => now_ns,
                None => 0,
            };
            let idle_s = now_ns.saturating_sub(flow.seen_ns.max(moved_ns)) / 1_000_000_000;
            let is_closed = flow.flags & TP_FLOW_CLOSED != 0;
            let is_over = idle_s >= IDLE_S || is_closed && idle_s >= CLOSED_S;
            if is_over && !self.of_life {
                watch.forget(slot);
                continue;
            }
            let period = match self.of_life {
                true => Period::life(&flow),
                false => Period {
                    before: before.copied().unwrap_or_default(),
                    passed_s,
                },
            };
            let view = viewer.view(&flow, &period);
            if idle_s < ACTIVE_S && view.group.is_long() {
                long += 1;
            }
            seen.insert(
                flow.id,
                Before {
                    bytes: left_bytes(&flow),
                    moved_ns,
                    sojourn_sum_us: flow.now.sojourn_sum_us,
                    sojourn_samples: flow.now.sojourn_samples,
                },
            );
            flows.push(view);
        }
        self.before = seen;
        watch.set_long_flows(long);
        flows.sort_by(|a, b| b.rate.cmp(&a.rate).then_with(|| a.flow.cmp(&b.flow)));
        Ok(self.whole(watch, device, flows))
    }

    /// Whether the device queues packets; `None` if unreadable.
    pub fn has_queue(&self) -> Option<bool> {
        self.unseen.has_queue()
    }

    fn whole(&mut self, watch: &Watch, device: &Device, flows: Vec<FlowView>) -> View {
        let (link, totals) = (watch.link(), watch.totals());
        let capacity = Some(link.busy_rate).filter(|rate| *rate > 0);
        let watched_s = self.start.elapsed().as_secs_f64();
        View {
            device: device.name().to_owned(),
            present: device.index() != 0,
            t_s: thousandths(watched_s),
            link_rate: link.rate,
            link_capacity: capacity,
            link_used: capacity.map(|of| thousandths((link.rate_mean as f64 / of as f64).min(1.0))),
            link_queue_us: link.queue_us.current.max(link.queue_us.previous),
            in_packets: totals.in_packets,
            out_packets: totals.out_packets.saturating_sub(totals.out_other_packets),
            dropped_packets: totals.dropped_packets,
            other_packets: totals.other_packets,
            unreadable_packets: totals.unreadable_packets,
            unproved_packets: totals.unproved_packets,
            unseen_packets: self.unseen.look(device.index(), || watch.totals()),
            missed_events: watch.cost().iter().map(|c| c.missed).sum(),
            reused: totals.reused,
            groups: View::sum(device.name(), &flows, self.of_life.then_some(watched_s)),
            fair: None,
            capture: None,
            flows,
        }
    }
}

impl Viewer<'_> {
    /// The figures of a flow.
    pub fn view(&self, flow: &tp_watch_flow, period: &Period) -> FlowView {
        let before = &period.before;
        let samples = flow
            .now
            .sojourn_samples
            .wrapping_sub(before.sojourn_samples);
        let sojourn = flow.now.sojourn_sum_us - before.sojourn_sum_us;
        let verdict = &flow.verdict;
        let (group, reason) = match self.classifier {
            Classifier::Tcpilot => (verdict.group, u32::from(verdict.reason)),
            Classifier::P4air => (flow.p4air.group, TP_REASON_P4AIR),
        };
        let ours = self.classifier == Classifier::Tcpilot;
        let protocol = protocol(flow);
        let model = match protocol {
            Protocol::Quic => &self.models.quic,
            _ => &self.models.tcp,
        };
        let name = model.names.get(usize::from(verdict.name));
        let name = name.filter(|_| ours).cloned();
        let hundredths = |of: f64| (of * 100.0).round() / 100.0;
        // Without the sender's share it would be some microseconds next to a near receiver.
        let is_whole = protocol != Protocol::Tcp || flow.flags & TP_FLOW_SHARE != 0;
        let some = |us: u32| (us != 0 && is_whole).then_some(us);
        FlowView {
            device: self.place.to_owned(),
            id: flow.id,
            flow: format!(
                "{} > {}",
                endpoint(&flow.key.source, flow.key.source_port),
                endpoint(&flow.key.destination, flow.key.destination_port)
            ),
            protocol,
            group: Group::from_number(group),
            confidence: name
                .as_ref()
                .map(|_| hundredths(model.name_probability(verdict))),
            group_confidence: ours.then(|| hundredths(model.group_probability(verdict))),
            algorithm: name,
            rate: (left_bytes(flow).saturating_sub(before.bytes) as f64 / period.passed_s) as u64,
            bytes: left_bytes(flow),
            packets: flow.now.in_packets.wrapping_sub(flow.drops),
            rtt_us: some(flow.rtt_us),
            min_rtt_us: some(flow.min_rtt_us),
            handshake: flow.flags & TP_FLOW_HANDSHAKE != 0,
            spin: (protocol == Protocol::Quic).then_some(flow.flags & TP_FLOW_SPIN != 0),
            light_tracking: flow.flags & TP_FLOW_LIGHT != 0,
            queue_us: u32::try_from(sojourn / u64::from(samples.max(1)))
                .ok()
                .filter(|_| samples > 0),
            drops: flow.drops,
            age_s: (self.now_ns.saturating_sub(flow.born_ns) as f64 / 1e8).round() / 10.0,
            rounds: flow.rounds,
            why: REASONS.get(reason as usize).copied().unwrap_or("unknown"),
        }
    }
}

fn protocol(flow: &tp_watch_flow) -> Protocol {
    if flow.flags & TP_FLOW_QUIC != 0 {
        Protocol::Quic
    } else if flow.key.protocol == Protocol::Udp.number() {
        Protocol::Udp
    } else {
        Protocol::Tcp
    }
}

fn endpoint(address: &[u32; 4], port: u16) -> String {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(address) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let address = Ipv6Addr::from(bytes);
    let address = address
        .to_ipv4_mapped()
        .map_or(IpAddr::V6(address), IpAddr::V4);
    SocketAddr::new(address, port).to_string()
}

/// A number of the output, as exact as anybody needs it.
pub fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
