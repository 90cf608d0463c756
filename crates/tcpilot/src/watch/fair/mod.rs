//! `--fair`: each group of flows in its own queues, by an HTB whose classes take turns by bytes, and our
//! filter on it. docs/decisions/13-fair.md tells why this and no other qdisc.

use std::{
    io::{self, Read},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use tcpilot_abi::{
    TP_FAIR_ANTS, TP_FAIR_FIRST, TP_FAIR_MICE, TP_FAIR_SLOW, TP_FAIR_STRANGERS, TP_FAIR_TOP,
};
use tcpilot_kernel::{
    rtnl::{CLSACT_INGRESS, Device as Tc, HtbClass, ROOT},
    watch::Watch,
};

mod journal;
mod orders;
mod view;

use journal::{HANDLE, Journal, PRIORITY};
use orders::Orders;
pub use view::{FairView, add_to as add_table};

use super::device::Device;
use crate::{
    cli::{Action, FairArgs, WatchArgs},
    failure::{Failure, Kind},
};

/// Orders are renewed this often, more seldom where there are many flows.
const EVERY: Duration = Duration::from_millis(250);
const EVERY_WITH_MANY: Duration = Duration::from_secs(2);
const MANY: usize = 10_000;
/// Without a sign of life the programs take no action after so long.
const ALIVE: Duration = Duration::from_secs(6);
/// What all queues together hold at most, as time on the link.
const HELD_S: f64 = 0.1;
const PACKET: u32 = 1514;
/// Beyond what any device carries: never a limit.
const UNLIMITED: u64 = 12_500_000_000;
/// A class has so little to itself: all but this is shared by turns. Bytes per second.
const OWN_RATE: u64 = 125;
const LEAST_PACKETS: u32 = 8;
/// Of the queues that many flows use at the same moment, at their start above all.
const LEAST_PACKETS_OF_MANY: u32 = 64;

/// A class and its queue, as they were last set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    quantum: u32,
    packets: u32,
}

/// What stands at the device; dropping it takes it away.
struct Standing {
    ifindex: u32,
    tc: Tc,
    set: Vec<(u16, Option<Set>)>,
    _window: Option<OwnedFd>,
    // Last: it puts the root qdisc back, which takes the rest along.
    _journal: Journal,
}

/// Fairness at a device.
pub struct Fair {
    rate: Option<f64>,
    standing: Option<Standing>,
    orders: Orders,
    next: Instant,
}

/// `--restore`.
///
/// # Errors
/// One line.
pub fn restore(device: &str, args: &FairArgs) -> Result<(), Failure> {
    if args.at_end_of_input {
        io::stdin().read_to_end(&mut Vec::new())?;
    }
    journal::restore(device)
}

impl Fair {
    /// Puts it in place; none where it is not asked for.
    ///
    /// # Errors
    /// One line.
    pub fn start(
        args: &WatchArgs,
        watch: &mut Watch,
        device: &Device,
    ) -> Result<Option<Fair>, Failure> {
        if !args.fair.fair {
            return Ok(None);
        }
        let rate = args.rate_mbit.map(|mbit| mbit * 125_000.0);
        if rate.is_some_and(|r| r < 12_500.0) {
            let message = "--rate is less than 0.1 Mbit/s";
            return Err(Failure::new(Kind::Usage, message, "give the link's rate"));
        }
        let mut fair = Fair {
            rate,
            standing: None,
            orders: Orders::new(args, actions(&args.fair.actions)?),
            next: Instant::now(),
        };
        fair.follow(watch, device)?;
        fair.renew(watch)?;
        Ok(Some(fair))
    }

    /// The device may have vanished, or be back.
    ///
    /// # Errors
    /// One line.
    pub fn follow(&mut self, watch: &mut Watch, device: &Device) -> Result<(), Failure> {
        if self.standing.as_ref().map_or(0, |s| s.ifindex) == device.index() {
            return Ok(());
        }
        self.standing = None;
        if device.index() != 0 {
            self.standing = Some(self.stand(watch, device)?);
        }
        Ok(())
    }

    fn stand(&self, watch: &Watch, device: &Device) -> Result<Standing, Failure> {
        let refused = |error: io::Error| {
            let message = format!("{}: the kernel refused the queues: {error}", device.name());
            Failure::new(Kind::Failed, message, "does it have HTB and cls_bpf?")
        };
        let tc = Tc::new(device.index()).map_err(refused)?;
        let journal = Journal::open(device.name(), device.index(), &tc, self.rate.is_some())?;
        tc.put_htb(HANDLE, TP_FAIR_MICE as u16).map_err(refused)?;
        let mut standing = Standing {
            ifindex: device.index(),
            tc,
            set: self.orders.minors().map(|minor| (minor, None)).collect(),
            _window: None,
            _journal: journal,
        };
        standing.add_top(self.rate).map_err(refused)?;
        standing
            .renew(self.rate, watch, &self.orders)
            .map_err(refused)?;
        let tc = &standing.tc;
        tc.put_filter(HANDLE, 1, watch.classifier(), HANDLE)
            .map_err(refused)?;
        if self.orders.shrinks_windows() {
            standing.attach_window(watch).map_err(refused)?;
        }
        Ok(standing)
    }

    /// Looks at the flows, and renews what follows from them, if it is time.
    ///
    /// # Errors
    /// One line.
    pub fn renew(&mut self, watch: &mut Watch) -> Result<(), Failure> {
        if Instant::now() < self.next {
            return Ok(());
        }
        let Some(standing) = &mut self.standing else {
            return Ok(());
        };
        watch.stay_alive_until(super::flows::monotonic_ns() + ALIVE.as_nanos() as u64);
        self.orders.renew(watch, self.rate)?;
        // It fails where the device is about to vanish, which is noticed soon.
        if let Err(error) = standing.renew(self.rate, watch, &self.orders) {
            tracing::debug!(%error, "the classes could not be changed");
        }
        let many = self.orders.len() > MANY;
        self.next = Instant::now() + if many { EVERY_WITH_MANY } else { EVERY };
        Ok(())
    }

    /// What is to be shown.
    pub fn view(&self, watch: &Watch) -> FairView {
        let stats = self.standing.as_ref().and_then(|s| s.tc.class_stats().ok());
        view::view(&self.orders, watch, &stats.unwrap_or_default())
    }
}

fn actions(wanted: &[Action]) -> Result<Vec<Action>, Failure> {
    if wanted.len() > 1 && wanted.contains(&Action::None) {
        let message = "--actions: none stands alone";
        return Err(Failure::new(Kind::Usage, message, ""));
    }
    Ok(wanted.to_vec())
}

impl Standing {
    /// The class that holds all others to the rate.
    fn add_top(&self, rate: Option<f64>) -> io::Result<()> {
        let Some(rate) = rate else {
            return Ok(());
        };
        let rate = rate as u64;
        self.tc.put_class(&HtbClass {
            parent: HANDLE,
            id: HANDLE | TP_FAIR_TOP,
            rate,
            ceiling: rate,
            // A millisecond's worth may go out at once, two full packets at least.
            burst: u32::try_from(rate / 1000)
                .unwrap_or(u32::MAX)
                .max(2 * PACKET),
            quantum: PACKET,
            priority: 0,
        })
    }

    /// Turns and lengths by the number of flows.
    fn renew(&mut self, rate: Option<f64>, watch: &Watch, orders: &Orders) -> io::Result<()> {
        let largest = watch.fair_counts().largest_bytes;
        let unit = u32::try_from(largest)
            .unwrap_or(u32::MAX)
            .clamp(PACKET, 1 << 17);
        let link_rate = rate.unwrap_or(watch.link().rate as f64);
        let held = (link_rate * HELD_S / f64::from(PACKET)).max(100.0);
        let all: f64 = self
            .set
            .iter()
            .map(|(minor, _)| orders.weight(*minor))
            .sum();
        for (minor, set) in &mut self.set {
            let weight = orders.weight(*minor);
            let is_for_many = u32::from(*minor) < TP_FAIR_FIRST;
            let of_one = LEAST_PACKETS * (weight.ceil() as u32).max(1);
            let least = of_one.max(u32::from(is_for_many) * LEAST_PACKETS_OF_MANY);
            let wanted = Set {
                quantum: (f64::from(unit) * weight.max(0.5)) as u32,
                packets: ((held * weight / all.max(1.0)) as u32).max(least),
            };
            let is_near = |old: &Set| {
                old.quantum == wanted.quantum
                    && old.packets.abs_diff(wanted.packets) * 5 < wanted.packets
            };
            if !set.as_ref().is_some_and(is_near) {
                put_queue(&self.tc, *minor, wanted, rate)?;
                *set = Some(wanted);
            }
        }
        Ok(())
    }

    /// By a link where the kernel has such, else by a clsact qdisc, which the journal knows.
    fn attach_window(&mut self, watch: &Watch) -> io::Result<()> {
        if let Ok(link) = watch.link_window(self.ifindex) {
            self._window = Some(link);
            return Ok(());
        }
        self._journal.note_clsact()?;
        if let Err(error) = self.tc.put_clsact()
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let program = watch.window_program();
        self.tc.put_filter(CLSACT_INGRESS, PRIORITY, program, 0)
    }
}

/// Ants go first where a rate is given, with half of it at most: a flood of them starves nobody.
fn put_queue(tc: &Tc, minor: u16, set: Set, rate: Option<f64>) -> io::Result<()> {
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
        TP_FAIR_ANTS | TP_FAIR_MICE | TP_FAIR_STRANGERS | TP_FAIR_SLOW => minor.into(),
        first => first - TP_FAIR_FIRST + 16,
    };
    tc.put_fifo(id, (0x7d00 + number) << 16, set.packets)
}

const _: () = assert!(ROOT != HANDLE);
