//! `[tuning]`: settings of a connection other than its congestion control, and how network type and objective
//! choose them.
//!
//! docs/use/tuning.md gives the reason of each choice and constant here.

use crate::names;
use tcpilot_abi::{
    TP_NET_CELLULAR, TP_NET_DATA_CENTER, TP_NET_LONG_FAT, TP_NET_UNKNOWN, TP_NET_WIFI,
    TP_TUNE_ACK_PRIORITY, TP_TUNE_IW, TP_TUNE_QUICK_ACK, TP_TUNE_RATE_LIMIT, TP_TUNE_RTO,
    TP_TUNE_RWND, TP_TUNE_THIN, tp_tuning,
};
use toml::Spanned;
use toml::de::DeValue;

use super::Policy;
use super::settings::{KeyPlace, Value, settings};

/// Declares an enumeration, with the word of each variant in the file.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident, $wanted:literal { $( $(#[$doc:meta])* $variant:ident = $word:literal ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$doc])* $variant ),* }

        impl $name {
            /// All variants.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Its word in the file.
            pub fn word(self) -> &'static str {
                match self { $( $name::$variant => $word ),* }
            }
        }

        impl Value for $name {
            fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<$name> {
                let Some(word) = value.get_ref().as_str() else {
                    return place.refuse_type(value, $wanted);
                };
                let all = || $name::ALL.iter().map(|each| each.word());
                $name::ALL.iter().copied().find(|each| each.word() == word).or_else(|| {
                    let hint = names::hint(word, all());
                    let all = all().collect::<Vec<_>>().join("\", \"");
                    place.refuse(value, &format!("cannot be {word:?}, there is \"{all}\"{hint}"))
                })
            }

            fn to_toml(&self) -> Option<String> {
                Some(format!("\"{}\"", self.word()))
            }
        }

        impl Value for Option<$name> {
            fn read(value: &Spanned<DeValue<'_>>, place: &KeyPlace<'_>) -> Option<Option<$name>> {
                $name::read(value, place).map(Some)
            }

            fn to_toml(&self) -> Option<String> {
                self.as_ref().and_then(Value::to_toml)
            }
        }
    };
}

words! {
    /// The kind of network on a path.
    Network, "a kind of network such as \"auto\"" {
        /// tcpilot infers the kind for each path.
        Auto = "auto",
        /// Round trips below a millisecond or two, and incast: many senders answer at once.
        DataCenter = "data-center",
        /// The first hop is a radio link.
        Wifi = "wifi",
        /// Round trips vary with the base station's scheduler, and the operator polices rates.
        Cellular = "cellular",
        /// Long round trips at a high rate.
        LongFat = "long-fat",
    }
}

words! {
    /// The purpose of tuning a connection.
    Objective, "an objective such as \"latency\"" {
        /// Nothing is tuned.
        None = "none",
        /// Short messages arrive in time, at the cost of rate.
        RealTime = "real-time",
        /// Requests complete soon.
        Latency = "latency",
        /// Long transfers get a high rate.
        Throughput = "throughput",
    }
}

words! {
    /// One tuning of a connection.
    Feature, "a tuning such as \"initial-window\"" {
        /// Initial window from the path's saved window.
        InitialWindow = "initial-window",
        /// SYN and minimum RTO from the path's RTT.
        Rto = "rto",
        /// Initial receive window from the path's BDP.
        ReceiveWindow = "receive-window",
        /// A bound on delayed acknowledgements.
        QuickAck = "quick-ack",
        /// Pace at a policer's rate.
        RateLimit = "rate-limit",
        /// Linear timeouts after a retransmission.
        Thin = "thin-linear-timeouts",
    }
}

words! {
    /// The rule of the initial window.
    WindowRule, "\"careful\" or \"slides\"" {
        /// The rule of RFC 9959.
        Careful = "careful",
        /// The rule of Hung, Zhang and Lu's slides (Fine-Grained TCP Tuning).
        Slides = "slides",
    }
}

settings! {
    /// `[tuning]`: settings of a connection other than its congestion control.
    Tuning {
        /// The purpose of tuning: "real-time", "latency", "throughput", or "none" (docs/use/tuning.md). It is off
        /// by default, because the kernel's own defaults are safe everywhere.
        objective: Objective = Objective::None;
        /// The kind of network: "data-center", "wifi", "cellular", "long-fat", or "auto", inferred for each path.
        /// In a data center dctcp and prague may be chosen too. Set here, it holds for private addresses only;
        /// set in a policy, for all its connections.
        network: Network = Network::Auto;
        /// The tunings themselves, in place of those of objective and network: "initial-window", "rto",
        /// "receive-window", "quick-ack", "rate-limit", "thin-linear-timeouts". Empty: those of objective and
        /// network.
        features: Vec<Feature> = Vec::new();
        /// Tunings to leave off, even if objective, network or a policy ask for them.
        never: Vec<Feature> = Vec::new();
        /// The rule of the initial window: "careful" (RFC 9959), or "slides", divided by load.
        window_rule: WindowRule = WindowRule::Careful;
        /// Load is low while the smoothed RTT is below this share of the path's least, in percent. The careful
        /// rule uses this bound for the handshake's RTT, and always allows 1 ms.
        low_load_percent: u32 = 125, 100..=100000;
        /// Load is middling below this share, in percent, and high above it.
        mid_load_percent: u32 = 200, 100..=100000;
        /// Divisor of a flow's share while load is low.
        low_load_divisor: u32 = 1, 1..=1000;
        /// Divisor of the share while load is middling.
        mid_load_divisor: u32 = 2, 1..=1000;
        /// Divisor of the share while load is high; the window may then be less than the kernel's.
        high_load_divisor: u32 = 4, 1..=1000;
        /// Maximum initial window, in packets. A SYN or SYN-ACK cannot announce more than 64 KiB, 45 packets;
        /// further ones wait for the receiver.
        most_packets: u32 = 512, 10..=65535;
        /// One connection in 2^shift goes without each tuning, for the guard's comparison. 0: none does.
        hold_out_shift: u32 = 4, 0..=4;
        /// The least minimum RTO, in milliseconds. 0: 5 in a data center, 60 for wifi, 40 elsewhere.
        rto_floor_ms: u32 = 0, 0..=200;
        /// The longest delay of an acknowledgement, in milliseconds. 0: 8 for real time, 20 otherwise. The
        /// kernel's own least is 40; it takes no less than two ticks.
        ack_delay_ms: u32 = 0, 0..=200;
        /// Rate of the host's receiving link, in Mbit/s, for the receive window; 0: as measured.
        link_mbit: u32 = 0, 0..=4000000;
        /// Receive window of a lone flow, in eighths of the BDP; live flows share it. 16 is twice the BDP, for a
        /// full queue.
        receive_bdp_eighths: u32 = 16, 1..=255;
        /// tcpilot lowers no receive window below this many KiB. 0: 4 segments in a data center, 64 (so none)
        /// elsewhere.
        receive_least_kib: u32 = 0, 0..=65536;
        /// tcpilot raises no receive window above this many KiB, or half of `tcp_rmem`'s maximum. 0: 64 (so none)
        /// in a data center, 1024 elsewhere.
        receive_most_kib: u32 = 0, 0..=65536;
        /// Seconds until tcpilot measures the rate of a policer again.
        probe_s: u32 = 30, 1..=3600;
        /// Whether pfifo_fast and prio serve pure acknowledgements of the cgroup first.
        ack_priority: bool = false;
        /// Interfaces with the kernel's default qdisc, to give a prio qdisc while tcpilot runs.
        ack_priority_devices: Vec<String> = Vec::new();
    }
}

impl Feature {
    fn bit(self) -> u8 {
        1 << match self {
            Feature::InitialWindow => TP_TUNE_IW,
            Feature::Rto => TP_TUNE_RTO,
            Feature::ReceiveWindow => TP_TUNE_RWND,
            Feature::QuickAck => TP_TUNE_QUICK_ACK,
            Feature::RateLimit => TP_TUNE_RATE_LIMIT,
            Feature::Thin => TP_TUNE_THIN,
        }
    }
}

/// The word of a number of `enum tp_tune`.
pub fn tune_word(number: u32) -> &'static str {
    if number == TP_TUNE_ACK_PRIORITY {
        return "ack-priority";
    }
    let all = Feature::ALL.iter();
    all.copied()
        .find(|feature| u32::from(feature.bit()) == 1 << number)
        .map_or("?", Feature::word)
}

fn mask(features: &[Feature]) -> u8 {
    features.iter().fold(0, |mask, f| mask | f.bit())
}

/// The tunings of an objective on a kind of network (`enum tp_net`).
pub fn chosen(objective: Objective, net: u32) -> Vec<Feature> {
    use Feature::{InitialWindow, QuickAck, RateLimit, ReceiveWindow, Rto, Thin};
    let mut features = match objective {
        Objective::None => vec![],
        Objective::RealTime => vec![Rto, QuickAck, Thin],
        Objective::Latency => vec![InitialWindow, Rto, ReceiveWindow, QuickAck, RateLimit, Thin],
        Objective::Throughput => vec![InitialWindow, ReceiveWindow, RateLimit],
    };
    match net {
        // Round trips are too short for a larger initial window to pay, and incast overflows shallow queues.
        TP_NET_DATA_CENTER => {
            features.retain(|f| !matches!(f, InitialWindow | RateLimit));
            if objective == Objective::RealTime {
                features.push(ReceiveWindow);
            }
        }
        // Round trips jump, so a shorter timer would fire in vain.
        TP_NET_CELLULAR => features.retain(|f| *f != Rto),
        _ => {}
    }
    features
}

impl Tuning {
    /// The tunings of a policy on a kind of network (`enum tp_net`), in the form for BPF. A policy's own
    /// settings come first.
    pub(super) fn to_abi(&self, policy: Option<&Policy>, net: u32) -> tp_tuning {
        let objective = policy.and_then(|p| p.objective).unwrap_or(self.objective);
        let net = match policy.and_then(|p| p.network).unwrap_or(self.network) {
            Network::Auto => net,
            named => named.number().into(),
        };
        let in_data_center = net == TP_NET_DATA_CENTER;
        let own = policy.map(|p| &p.features).filter(|f| !f.is_empty());
        let listed = own.unwrap_or(&self.features);
        let features = match (objective, listed.is_empty()) {
            (Objective::None, _) => 0,
            (_, true) => mask(&chosen(objective, net)),
            (_, false) => mask(listed),
        };
        tp_tuning {
            features: features & !mask(&self.never),
            iw_careful: (self.window_rule == WindowRule::Careful).into(),
            hold_out_shift: self.hold_out_shift as u8,
            rwnd_beta_x8: self.receive_bdp_eighths as u8,
            iw_low_percent: self.low_load_percent,
            iw_mid_percent: self.mid_load_percent,
            iw_low_divisor: self.low_load_divisor as u16,
            iw_mid_divisor: self.mid_load_divisor as u16,
            iw_high_divisor: self.high_load_divisor as u16,
            iw_most_packets: self.most_packets as u16,
            rto_floor_us: 1000 * or(self.rto_floor_ms, rto_floor_ms(net)),
            syn_rto_floor_us: 1000 * if in_data_center { 10 } else { 100 },
            delack_us: 1000
                * or(
                    self.ack_delay_ms,
                    if objective == Objective::RealTime {
                        8
                    } else {
                        20
                    },
                ),
            link_mbit: self.link_mbit,
            probe_s: self.probe_s,
            rwnd_least_bytes: 1024
                * or(self.receive_least_kib, if in_data_center { 1 } else { 64 }),
            rwnd_most_bytes: 1024
                * or(
                    self.receive_most_kib,
                    if in_data_center { 64 } else { 1024 },
                ),
        }
    }
}

fn or(given: u32, default: u32) -> u32 {
    if given == 0 { default } else { given }
}

fn rto_floor_ms(net: u32) -> u32 {
    match net {
        TP_NET_DATA_CENTER => 5,
        TP_NET_WIFI => 60,
        _ => 40,
    }
}

impl Network {
    /// The number of `enum tp_net`; `TP_NET_UNKNOWN` if the kind is inferred.
    pub(super) fn number(self) -> u8 {
        (match self {
            Network::Auto => TP_NET_UNKNOWN,
            Network::DataCenter => TP_NET_DATA_CENTER,
            Network::Wifi => TP_NET_WIFI,
            Network::Cellular => TP_NET_CELLULAR,
            Network::LongFat => TP_NET_LONG_FAT,
        }) as u8
    }
}

/// The word of a number of `enum tp_net`.
pub fn net_word(number: u8) -> &'static str {
    match u32::from(number) {
        TP_NET_DATA_CENTER => Network::DataCenter.word(),
        TP_NET_WIFI => Network::Wifi.word(),
        TP_NET_CELLULAR => Network::Cellular.word(),
        TP_NET_LONG_FAT => Network::LongFat.word(),
        _ => "unknown",
    }
}
