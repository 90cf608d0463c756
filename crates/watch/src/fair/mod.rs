//! `--fair`: each group of flows has queues of its own, and the queues take turns by bytes. A BPF qdisc of
//! ours holds them, or an HTB with our filter on it. docs/understand/decisions/13-fair.md gives the reasons.

use std::{
    io::{self, Read},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use tcpilot_abi::{TP_FAIR_FIRST, tp_fair_control};
use tcpilot_kernel::clock::monotonic_ns;
use tcpilot_kernel::watch::Watch;
use tcpilot_netlink::tc::{CLSACT_INGRESS, Device as Tc, ROOT};
use tcpilot_show::failure::{Failure, Kind};

mod journal;
mod mark;
mod orders;
mod queueing;
mod queues;
mod sharers;
mod view;

use journal::{HANDLE, Journal, PRIORITY};
pub use mark::{Marker, by_group as marks_by_group};
use orders::Orders;
use queueing::Queueing;
pub use queueing::load;
pub use view::{FairView, QueuesView, add_to as add_table};

use crate::{
    args::{Action, FairArgs, WatchArgs},
    link::Device,
    model::Models,
};

/// Interval between renewals of orders; it is longer if there are more than `MANY` flows.
const EVERY: Duration = Duration::from_millis(250);
const EVERY_WITH_MANY: Duration = Duration::from_secs(2);
const MANY: usize = 10_000;
/// Time without a heartbeat until the programs take no action.
const ALIVE: Duration = Duration::from_secs(6);
/// Capacity of all queues together, as time on the link.
const HELD_S: f64 = 0.1;
const PACKET: u32 = 1514;
const LEAST_PACKETS: u32 = 8;
/// Length of the queues used by many flows at once, most of all when flows start.
const LEAST_PACKETS_OF_MANY: u32 = 64;

/// The parameters of a class and its queue as they were last set: the turn in bytes, the length in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    quantum: u32,
    packets: u32,
}

/// The qdisc at the device; dropping it removes it.
struct Standing {
    ifindex: u32,
    tc: Tc,
    queueing: Queueing,
    set: Vec<(u16, Option<Set>)>,
    _window: Option<OwnedFd>,
    // The last field to be dropped: it puts the root qdisc back, and so removes the rest.
    journal: Journal,
}

/// Fairness at a device.
pub struct Fair<'a> {
    rate: Option<f64>,
    standing: Option<Standing>,
    // Declared after `standing`, so the qdisc is dropped before its programs and maps.
    bpf: queueing::Registered,
    orders: Orders<'a>,
    next: Instant,
}

/// `--restore`: puts back the qdisc replaced by a killed process.
///
/// # Errors
/// Those of `journal::restore`, or standard input cannot be read.
pub fn restore(device: &str, args: &FairArgs) -> Result<(), Failure> {
    if args.at_end_of_input {
        io::stdin().read_to_end(&mut Vec::new())?;
    }
    journal::restore(device)
}

impl<'a> Fair<'a> {
    /// Replaces the device's root qdisc; `None` without `--fair`.
    ///
    /// # Errors
    /// The options contradict each other, or the kernel refuses the queues.
    pub fn start(
        args: &WatchArgs,
        models: &'a Models,
        watch: &mut Watch,
        device: &Device,
    ) -> Result<Option<Fair<'a>>, Failure> {
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
            bpf: queueing::Registered::new(args.fair.qdisc, watch)?,
            orders: Orders::new(args, actions(&args.fair.actions)?, models),
            next: Instant::now(),
        };
        fair.follow(watch, device)?;
        fair.renew(watch)?;
        Ok(Some(fair))
    }

    /// Makes the device fair again if it vanished and is back.
    ///
    /// # Errors
    /// The device is there, and the kernel refuses the queues, or refuses to put the former qdisc back.
    pub fn follow(&mut self, watch: &mut Watch, device: &Device) -> Result<(), Failure> {
        if self.standing.as_ref().map_or(0, |s| s.ifindex) == device.index() {
            return Ok(());
        }
        self.take_down()?;
        if device.index() != 0 {
            self.standing = match self.stand(watch, device) {
                // The device vanished meanwhile. It is made fair again when it is back.
                Err(_) if device.has_changed() => None,
                result => Some(result?),
            };
        }
        Ok(())
    }

    /// Puts the former root qdisc back, if ours stands at a device.
    ///
    /// # Errors
    /// The kernel refuses the change.
    pub fn take_down(&mut self) -> Result<(), Failure> {
        self.standing.take().map_or(Ok(()), Standing::take_down)
    }

    fn stand(&self, watch: &Watch, device: &Device) -> Result<Standing, Failure> {
        let refused = |error: io::Error| {
            let message = format!("{}: the kernel refused the queues: {error}", device.name());
            Failure::new(Kind::Failed, message, "does it have HTB and cls_bpf?")
        };
        let tc = Tc::new(device.index()).map_err(refused)?;
        let journal = Journal::open(device.name(), device.index(), &tc, self.rate.is_some())?;
        let mut standing = Standing {
            ifindex: device.index(),
            tc,
            queueing: self.bpf.queueing(),
            set: self.orders.minors().map(|minor| (minor, None)).collect(),
            _window: None,
            journal,
        };
        match self.furnish(&mut standing, watch) {
            Ok(()) => Ok(standing),
            Err(error) => Err(refused(error).with(standing.take_down())),
        }
    }

    /// Puts our qdisc at the device: an HTB if the kernel refuses a BPF qdisc there.
    fn furnish(&self, standing: &mut Standing, watch: &Watch) -> io::Result<()> {
        if let Err(error) = standing.put(self.rate, watch, &self.orders) {
            if !self.bpf.may_be_htb() {
                return Err(error);
            }
            tracing::warn!(%error, "the BPF qdisc could not be put there: HTB instead");
            standing.queueing = Queueing::Htb;
            standing.set.iter_mut().for_each(|(_, set)| *set = None);
            standing.put(self.rate, watch, &self.orders)?;
        }
        if self.orders.shrinks_windows() {
            standing.attach_window(watch)?;
        }
        Ok(())
    }

    /// Looks at the flows and renews their orders, if it is time.
    ///
    /// # Errors
    /// The flows cannot be read, or an order cannot be written.
    pub fn renew(&mut self, watch: &mut Watch) -> Result<(), Failure> {
        if Instant::now() < self.next {
            return Ok(());
        }
        let Some(standing) = &mut self.standing else {
            return Ok(());
        };
        self.orders.renew(watch, self.rate)?;
        watch.control_fair(&tp_fair_control {
            alive_until_ns: monotonic_ns() + ALIVE.as_nanos() as u64,
            // Without a rate nobody goes first.
            sparse_rate: self
                .rate
                .map_or(0, |_| (self.orders.share_of_grown / 2.0) as u64),
            turn_bytes: unit(watch),
            ..tp_fair_control::default()
        });
        // This fails if the device is about to vanish. `follow` notices soon.
        if let Err(error) = standing.renew(self.rate, watch, &self.orders) {
            tracing::debug!(%error, "the classes could not be changed");
        }
        let many = self.orders.len() > MANY;
        self.next = Instant::now() + if many { EVERY_WITH_MANY } else { EVERY };
        Ok(())
    }

    /// The figures of the queues.
    pub fn view(&self, watch: &Watch) -> FairView {
        let standing = self.standing.as_ref();
        let stats = standing.map(|s| s.queueing.stats(&s.tc, watch));
        let queueing = standing.map_or(self.bpf.queueing(), |s| s.queueing);
        view::view(&self.orders, watch, queueing, &stats.unwrap_or_default())
    }
}

/// The turn of a queue of one flow, in bytes: the longest packet seen.
fn unit(watch: &Watch) -> u32 {
    let largest = watch.fair_counts().largest_bytes;
    u32::try_from(largest)
        .unwrap_or(u32::MAX)
        .clamp(PACKET, 1 << 17)
}

fn actions(wanted: &[Action]) -> Result<Vec<Action>, Failure> {
    if wanted.len() > 1 && wanted.contains(&Action::None) {
        let message = "--actions: none stands alone";
        return Err(Failure::new(Kind::Usage, message, ""));
    }
    Ok(wanted.to_vec())
}

impl Standing {
    /// Puts the former root qdisc back.
    fn take_down(self) -> Result<(), Failure> {
        let Standing {
            journal, _window, ..
        } = self;
        drop(_window);
        journal.end()
    }

    /// Puts the root qdisc with all its queues in place.
    fn put(&mut self, rate: Option<f64>, watch: &Watch, orders: &Orders) -> io::Result<()> {
        self.queueing.begin(&self.tc, rate)?;
        self.renew(rate, watch, orders)?;
        self.queueing.end(&self.tc, watch)
    }

    /// Sets the turns and lengths of the queues by their number of flows.
    fn renew(&mut self, rate: Option<f64>, watch: &Watch, orders: &Orders) -> io::Result<()> {
        let unit = unit(watch);
        let link_rate = rate.unwrap_or(watch.link().rate as f64);
        let held = (link_rate * HELD_S / f64::from(PACKET)).max(100.0);
        // Empty queues hold nothing: if they counted, a few flows would have very short ones.
        let used = self.set.iter().filter(|(minor, _)| orders.is_used(*minor));
        let all: f64 = used.map(|(minor, _)| orders.weight(*minor)).sum();
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
                let queueing = self.queueing;
                queueing.set(&self.tc, watch, *minor, wanted, rate)?;
                *set = Some(wanted);
            }
        }
        Ok(())
    }

    /// Attaches the program that shrinks windows: by a link if the kernel has them, else by a clsact qdisc,
    /// noted in the journal.
    fn attach_window(&mut self, watch: &Watch) -> io::Result<()> {
        if let Ok(link) = watch.link_window(self.ifindex) {
            self._window = Some(link);
            return Ok(());
        }
        self.journal.note_clsact()?;
        match self.tc.put_clsact() {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let program = watch.window_program();
        self.tc.put_filter(CLSACT_INGRESS, PRIORITY, program, 0)
    }
}

const _: () = assert!(ROOT != HANDLE);
