//! The qdisc with the queues of `--fair`: a BPF qdisc of ours, or an HTB with a filter of ours.

use std::io;

use tcpilot_abi::{
    TP_FAIR_ANTS, TP_FAIR_FIRST, TP_FAIR_MICE, TP_FAIR_SLOW, TP_FAIR_TOP, TP_FAIR_UNREPLIED,
};
use tcpilot_kernel::{
    Error,
    watch::{Models, Options, Registration, Watch, has_bpf_qdiscs},
};
use tcpilot_netlink::tc::{ClassStats, Device as Tc, HtbClass, Qdisc, ROOT};
use tcpilot_show::failure::Failure;

use super::{HELD_S, LEAST_PACKETS, PACKET, Set, journal::HANDLE, orders::PER_K};
use crate::args::{QdiscChoice, WatchArgs};

/// More bytes per second than any device carries, so never a limit.
const UNLIMITED: u64 = 12_500_000_000;
/// The guaranteed rate of each HTB class, in bytes per second. It is tiny, so the classes share
/// almost everything by turns.
const OWN_RATE: u64 = 125;
/// The rate assumed for the room of the BPF qdisc if the user gives none, in bytes per second.
const ASSUMED_RATE: f64 = 1.25e9;
/// The most packets in the BPF qdisc; each takes 24 bytes of it.
const MOST_PACKETS: f64 = 262_144.0;

/// Loads the programs, with those of the BPF qdisc if it is wanted and the kernel has BPF qdiscs.
///
/// # Errors
/// The kernel refuses the programs.
pub fn load(args: &WatchArgs, options: Options, models: Models<'_>) -> Result<Watch, Failure> {
    let choice = args.fair.qdisc;
    let is_wanted = match choice {
        QdiscChoice::Htb => false,
        QdiscChoice::Bpf => true,
        QdiscChoice::Auto => has_bpf_qdiscs(),
    };
    if args.fair.fair && is_wanted {
        let with_qdisc = Options {
            qdisc_packets: Some(packets(args)),
            ..options
        };
        match Watch::start(&with_qdisc, models) {
            Err(error @ (Error::Load(_) | Error::Rejected { .. }))
                if choice == QdiscChoice::Auto =>
            {
                tracing::warn!(%error, "no BPF qdisc: HTB instead");
            }
            result => return Ok(result?),
        }
    }
    Ok(Watch::start(&options, models)?)
}

/// The limit on packets in all queues together.
fn packets(args: &WatchArgs) -> u32 {
    let rate = args.rate_mbit.map_or(ASSUMED_RATE, |mbit| mbit * 125_000.0);
    let queues = PER_K * usize::from(args.fair.queues);
    let least = f64::from(LEAST_PACKETS) * (f64::from(args.flows) + queues as f64);
    // 1.25, because a limit is renewed only when it is a fifth off.
    (rate * HELD_S / f64::from(PACKET) * 1.25 + least).min(MOST_PACKETS) as u32
}

/// The registration of the BPF qdisc, if the kernel took it.
pub struct Registered {
    choice: QdiscChoice,
    registration: Option<Registration>,
}

impl Registered {
    /// Registers the BPF qdisc if it was loaded.
    ///
    /// # Errors
    /// The kernel refuses it, and the user allows no other kind.
    pub fn new(choice: QdiscChoice, watch: &mut Watch) -> Result<Registered, Failure> {
        let registration = match watch.register_qdisc() {
            None => None,
            Some(Err(error)) if choice == QdiscChoice::Auto => {
                tracing::warn!(%error, "the kernel does not take the BPF qdisc: HTB instead");
                None
            }
            Some(result) => Some(result?),
        };
        Ok(Registered {
            choice,
            registration,
        })
    }

    /// The qdisc for a device.
    pub fn queueing(&self) -> Queueing {
        match &self.registration {
            Some(_) => Queueing::Bpf,
            None => Queueing::Htb,
        }
    }

    /// Whether an HTB may replace the BPF qdisc if the device refuses it.
    pub fn may_be_htb(&self) -> bool {
        self.choice == QdiscChoice::Auto && self.registration.is_some()
    }
}

/// The kind of qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// An HTB with a class for each queue, and a filter.
    Htb,
    /// A BPF qdisc with the queues inside.
    Bpf,
}

impl Queueing {
    /// The word for it in options and output.
    pub fn word(self) -> &'static str {
        match self {
            Queueing::Htb => "htb",
            Queueing::Bpf => "bpf",
        }
    }

    /// Makes the root of an HTB, before its queues. A BPF qdisc needs no root.
    pub fn begin(self, tc: &Tc, rate: Option<f64>) -> io::Result<()> {
        if self == Queueing::Bpf {
            return Ok(());
        }
        tc.put_htb(HANDLE, TP_FAIR_MICE as u16)?;
        add_top(tc, rate)
    }

    /// Puts the last piece in place; from now on packets go to their queues.
    pub fn end(self, tc: &Tc, watch: &Watch) -> io::Result<()> {
        match self {
            Queueing::Htb => tc.put_filter(HANDLE, 1, watch.classifier(), HANDLE),
            Queueing::Bpf => tc.put(&Qdisc {
                kind: Watch::qdisc_kind(),
                handle: HANDLE,
                parent: ROOT,
                options: None,
            }),
        }
    }

    /// Sets a queue's turn and length.
    pub fn set(
        self,
        tc: &Tc,
        watch: &Watch,
        minor: u16,
        set: Set,
        rate: Option<f64>,
    ) -> io::Result<()> {
        match self {
            Queueing::Htb => put_class(tc, minor, set, rate),
            Queueing::Bpf => watch
                .set_turn(minor, set.quantum, set.packets)
                .map_err(io::Error::other),
        }
    }

    /// The counts of the queues.
    pub fn stats(self, tc: &Tc, watch: &Watch) -> Vec<ClassStats> {
        match self {
            Queueing::Htb => tc.class_stats().unwrap_or_default(),
            Queueing::Bpf => watch.queue_stats(),
        }
    }
}

/// Adds the top class, which holds all others to the rate.
fn add_top(tc: &Tc, rate: Option<f64>) -> io::Result<()> {
    let Some(rate) = rate else {
        return Ok(());
    };
    let rate = rate as u64;
    tc.put_class(&HtbClass {
        parent: HANDLE,
        id: HANDLE | TP_FAIR_TOP,
        rate,
        ceiling: rate,
        // A millisecond's worth of bytes may leave at once, and at least two full packets.
        burst: u32::try_from(rate / 1000)
            .unwrap_or(u32::MAX)
            .max(2 * PACKET),
        quantum: PACKET,
        priority: 0,
    })
}

/// If there is a rate, ants go first with at most half of it, so a flood of ants starves nobody.
fn put_class(tc: &Tc, minor: u16, set: Set, rate: Option<f64>) -> io::Result<()> {
    let id = HANDLE | u32::from(minor);
    let is_ants = u32::from(minor) == TP_FAIR_ANTS;
    let ceiling = match rate {
        Some(rate) if is_ants => (rate / 2.0) as u64,
        Some(rate) => (rate * 2.0) as u64,
        None => UNLIMITED,
    };
    tc.put_class(&HtbClass {
        parent: HANDLE | if rate.is_some() { TP_FAIR_TOP } else { 0 },
        id,
        rate: if rate.is_some() { OWN_RATE } else { UNLIMITED },
        ceiling,
        burst: 2 * PACKET
            + u32::try_from(ceiling / 1000).unwrap_or(0).min(1 << 20) * u32::from(rate.is_none()),
        quantum: set.quantum,
        priority: u32::from(!(is_ants && rate.is_some())),
    })?;
    let number = match u32::from(minor) {
        TP_FAIR_ANTS | TP_FAIR_MICE | TP_FAIR_UNREPLIED | TP_FAIR_SLOW => minor.into(),
        first => first - TP_FAIR_FIRST + 16,
    };
    tc.put_fifo(id, (0x7d00 + number) << 16, set.packets)
}
