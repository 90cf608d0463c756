//! The tunings of a path, read from the structures of the BPF programs.

use tcpilot_abi::{
    TP_NET_WHY_BDP, TP_NET_WHY_FEW, TP_NET_WHY_INTERFACE, TP_NET_WHY_JITTER, TP_NET_WHY_RTT,
    TP_TUNE_COUNT, TP_TUNE_IW, TP_TUNE_QUICK_ACK, TP_TUNE_RATE_LIMIT, TP_TUNE_RTO, TP_TUNE_RWND,
    TP_UNUSED_RUN, tp_path, tp_path_key, tp_tuned,
};
use tcpilot_config::{net_word, tune_word};

use tcpilot_core::Prefix;

use super::{Names, ratio};
use crate::figures::{
    PathView, TuneView, TuningView,
    measure::{Greatest, Greatest32, Least, Measure as _, Number, Sum, some},
};

impl Names<'_> {
    /// The view of a path unknown to the learner, by the measures of its tunings; `None` if the key is not
    /// one of ours.
    pub fn tuned_path(&self, key: &tp_path_key, path: &tp_path) -> Option<PathView> {
        let behind = self.behind(path.epoch, self.config.window_ns);
        let sent = Sum::shown(&path.sent_packets, behind);
        let lost = Sum::shown(&path.lost_packets, behind);
        Some(PathView {
            prefix: Prefix::from_key(key)?,
            netns: (self.netns)(path.netns_inum),
            policy: (self.policy)(key.policy),
            min_rtt_us: Least::shown(&path.min_rtt_us, behind),
            srtt_us: Number::shown(&path.srtt_us, behind),
            max_delivery_rate: Greatest::shown(&path.max_delivery_rate, behind),
            connections: path.connections,
            live_flows: path.live_flows,
            loss_ratio: ratio(lost, sent),
            age_s: self.age_s(path.updated_ns),
            level: "path".to_owned(),
            ..PathView::default()
        })
    }

    /// The view of a path's tunings.
    ///
    /// `last_loss_ns`: when any connection last lost a packet, CLOCK_MONOTONIC; 0 for never.
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
            saved_window: Greatest32::shown(
                &t.saved_packets,
                self.behind(t.epoch, self.config.ssthresh_window_ns),
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

    /// Why a tuning is not set at present, if so: it was of no use recently, and would only cost time.
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
