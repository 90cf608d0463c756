//! What the commands show of the tunings: as data, and as text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};
use tcpilot_abi::{
    TP_NET_WHY_BDP, TP_NET_WHY_FEW, TP_NET_WHY_INTERFACE, TP_NET_WHY_JITTER, TP_NET_WHY_RTT,
    TP_TUNE_COUNT, TP_TUNE_IW, TP_TUNE_QUICK_ACK, TP_TUNE_RATE_LIMIT, TP_TUNE_RTO, TP_TUNE_RWND,
    TP_UNUSED_RUN, tp_cohort, tp_path, tp_path_key, tp_tuned,
};

use crate::{
    pilot::config::{net_word, tune_word},
    show::views::{Names, max32_of, some},
};

/// What is tuned on one path, and from which figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuningView {
    /// The kind of network that it is taken for.
    pub network: String,
    /// Why.
    pub because: String,
    /// Greatest window seen to fit in the last 30 to 60 s, packets.
    pub saved_window: Option<u32>,
    /// Variation of the RTT, microseconds.
    pub rttvar_us: Option<u32>,
    /// The initial window's excess is divided by 2^brake, after losses.
    pub brake: u8,
    /// Windows of which something was lost before all was acknowledged.
    pub retreats: u32,
    /// A policer's rate, bytes per second.
    pub policed_rate: Option<u64>,
    /// The tunings that the policy has on here.
    pub tunings: Vec<TuneView>,
}

/// One tuning of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneView {
    /// Its name.
    pub name: String,
    /// How often it was set.
    pub set: u32,
    /// What was set last, and from what; empty where nothing was.
    pub last: String,
    /// The guard has switched it off.
    pub switched_off: bool,
    /// Why connections do not get it now, though it is on.
    pub waits: Option<String>,
    /// Connections that had it.
    pub with: CohortView,
    /// Connections held out from it.
    pub without: CohortView,
}

/// Connections that the guard compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CohortView {
    /// How many.
    pub connections: u32,
    /// Those that ended with more than twice the path's least RTT.
    pub late: u32,
    /// Segments sent.
    pub sent: u32,
    /// Segments retransmitted.
    pub lost: u32,
}

impl From<&tp_cohort> for CohortView {
    fn from(g: &tp_cohort) -> CohortView {
        CohortView {
            connections: g.connections,
            late: g.late,
            sent: g.sent_packets,
            lost: g.lost_packets,
        }
    }
}

/// All tunings, counted since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuningsStatus {
    /// What connections are tuned for, where their policy says nothing else.
    pub objective: String,
    /// The kind of network, likewise.
    pub network: String,
    /// How often each was set.
    pub set: BTreeMap<String, u64>,
    /// How often the kernel refused.
    pub refused: BTreeMap<String, u64>,
    /// Initial windows of which something was lost before all was acknowledged.
    pub retreats: u64,
    /// Acknowledgements that were given priority.
    pub acks_first: u64,
    /// What the guard has switched off, a sentence each.
    pub guard: Vec<String>,
}

/// The names of the tunings whose bits are set.
pub(crate) fn words(bits: u8) -> Vec<String> {
    (0..TP_TUNE_COUNT)
        .filter(|tune| bits >> tune & 1 == 1)
        .map(|tune| tune_word(tune).to_owned())
        .collect()
}

impl Names<'_> {
    /// What is tuned on a path, as people see it.
    ///
    /// `last_loss_ns`: when any connection lost a packet last, 0 for never.
    pub fn tuning(
        &self,
        key: &tp_path_key,
        path: &tp_path,
        t: &tp_tuned,
        last_loss_ns: u64,
    ) -> TuningView {
        let features = self
            .config
            .tuning
            .get(usize::from(key.policy))
            .and_then(|nets| nets.get(usize::from(t.net)))
            .map_or(0, |tuning| tuning.features);
        let policy = self.config.policy.get(usize::from(key.policy));
        let configured = policy.map_or(0, |policy| policy.net);
        let (network, because) = match configured {
            0 => (net_word(t.net), because(t.net_why)),
            named => (net_word(named), "configured"),
        };
        let on = (0..TP_TUNE_COUNT).filter(|tune| features >> tune & 1 == 1);
        TuningView {
            network: network.to_owned(),
            because: because.to_owned(),
            saved_window: max32_of(
                &t.saved_packets,
                t.epoch,
                self.epoch(self.config.ssthresh_window_ns),
            ),
            rttvar_us: some(t.rttvar_us),
            brake: t.brake,
            retreats: t.retreats,
            policed_rate: some(t.limit_rate).filter(|_| t.limit_until_ns > self.now_ns),
            tunings: on
                .map(|tune| one(t, tune, self.waits(path, tune, last_loss_ns)))
                .collect(),
        }
    }

    /// A tuning of which no use was made lately is not set: it would only cost.
    fn waits(&self, path: &tp_path, tune: u32, last_loss_ns: u64) -> Option<String> {
        let skipped = path.skips >> tune & 1 == 1;
        let why = match tune {
            TP_TUNE_RTO => {
                let age = self.now_ns.saturating_sub(last_loss_ns);
                let lately = last_loss_ns > 0 && age < self.config.window_ns;
                return (!lately).then(|| "nothing was lost lately".to_owned());
            }
            TP_TUNE_IW => "sent ten packets at most",
            TP_TUNE_QUICK_ACK => "received one segment at most",
            TP_TUNE_RWND => "received 64 KiB at most",
            _ => return None,
        };
        skipped.then(|| format!("its last {TP_UNUSED_RUN} connections {why}"))
    }
}

fn one(t: &tp_tuned, tune: u32, waits: Option<String>) -> TuneView {
    let index = tune as usize;
    let off = t.off >> tune & 1 == 1;
    TuneView {
        name: tune_word(tune).to_owned(),
        set: t.set[index],
        last: last(t, tune),
        switched_off: off,
        waits: waits.filter(|_| !off),
        with: (&t.with[index]).into(),
        without: (&t.without[index]).into(),
    }
}

fn last(t: &tp_tuned, tune: u32) -> String {
    let ms = |us: u32| f64::from(us) / 1000.0;
    match tune {
        TP_TUNE_IW if t.iw_packets > 0 => format!(
            "{} packets, from {} saved and {} live",
            t.iw_packets, t.iw_saved_packets, t.iw_flows
        ),
        TP_TUNE_RTO if t.rto_min_us > 0 || t.syn_rto_us > 0 => format!(
            "least {:.1} ms, SYN {:.1} ms, from a variation of {:.1} ms",
            ms(t.rto_min_us),
            ms(t.syn_rto_us),
            ms(t.rttvar_us)
        ),
        TP_TUNE_RWND if t.rwnd_packets > 0 => format!("{} packets", t.rwnd_packets),
        TP_TUNE_RATE_LIMIT if t.limit_rate > 0 => {
            format!("{:.2} Mbit/s", t.limit_rate as f64 * 8e-6)
        }
        _ => String::new(),
    }
}

fn because(why: u8) -> &'static str {
    match u32::from(why) {
        TP_NET_WHY_FEW => "too few connections to tell",
        TP_NET_WHY_INTERFACE => "its route leaves by a wireless interface",
        TP_NET_WHY_RTT => "its round trips are short and steady",
        TP_NET_WHY_JITTER => "its round trips vary much",
        TP_NET_WHY_BDP => "its round trips are long and its BDP is large",
        _ => "no kind fits",
    }
}

impl TuningView {
    /// Lines for `explain`.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let saved = self
            .saved_window
            .map_or_else(|| "-".to_owned(), |w| w.to_string());
        let _ = writeln!(
            out,
            "  network {} ({}), saved window {saved}, brake {}, retreats {}",
            self.network, self.because, self.brake, self.retreats
        );
        for t in &self.tunings {
            let off = match &t.waits {
                _ if t.switched_off => ", SWITCHED OFF by the guard".to_owned(),
                Some(why) => format!("; not now: {why}"),
                None => String::new(),
            };
            let last = if t.last.is_empty() {
                String::new()
            } else {
                format!(", last {}", t.last)
            };
            let _ = writeln!(out, "  {:<20} set {} times{last}{off}", t.name, t.set);
        }
        out
    }
}

impl TuningsStatus {
    /// Lines for `status`.
    pub(crate) fn text(&self) -> String {
        let counts: Vec<String> = self
            .set
            .iter()
            .map(|(name, n)| match self.refused.get(name) {
                Some(refused) if *refused > 0 => format!("{name} {n} ({refused} refused)"),
                _ => format!("{name} {n}"),
            })
            .collect();
        let mut out = format!(
            "tuned    for {} on {}: {} · retreats {}\n",
            self.objective,
            self.network,
            counts.join(" · "),
            self.retreats
        );
        if self.acks_first > 0 {
            let _ = writeln!(out, "acks     {} sent first", self.acks_first);
        }
        for sentence in &self.guard {
            let _ = writeln!(out, "guard    {sentence}");
        }
        out
    }
}
