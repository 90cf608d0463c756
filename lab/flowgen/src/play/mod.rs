//! `play`: groups of connections by a plan, all sent from here, with samples of every socket and
//! of the path's queues.
//!
//! One thread and one epoll set; QUIC has a second thread and reports its events by file
//! descriptors. All work with a cost in time or memory (reading the plan, opening
//! sockets of other namespaces, starting `tc`) is done before the measured time, and everything is
//! written after it: if a virtual machine counts instructions as time, nothing is forked, read
//! or written while it counts.

mod carrier;
mod changes;
mod ended;
mod fetch;
mod flow;
mod netns;
mod notes;
mod plan;
mod probe;
mod programs;
mod qdisc;
#[cfg(feature = "mpquic")]
mod quic_flow;
mod record;
mod start;

pub use plan::{Change, Foreign, Group, Plan, Queue, Serve, Source, Work};
pub use probe::Probe;
pub use qdisc::{QdiscReader, QdiscStats};
pub use start::lock_memory;

use crate::error::Result;
use crate::net::{Discarder, Interest, Poller};
use carrier::Carrier;
use changes::Changers;
use ended::Ended;
use flow::After;
use probe::Running;
use programs::ProgramReader;
use record::{FlowRow, Record};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The result, as printed.
#[derive(Debug, Serialize)]
pub struct PlayReport {
    /// When the measured time began, by CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Measured time.
    pub seconds: f64,
    /// Connections and exchanges recorded.
    pub rows: usize,
    /// Those of them with an error.
    pub errors: usize,
    /// First error.
    pub first_error: Option<String>,
    /// How late samples were taken: the 99th percentile, in ms.
    pub sample_late_ms_p99: f64,
    /// Lateness of the latest sample: shows a host or an emulated clock standing still.
    pub sample_late_ms_max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Change(usize),
    /// Cuts a timed connection; holds if it is still the same.
    Cut {
        slot: usize,
        flow: u64,
    },
    Start(usize),
    /// Lets a source hand over more; holds if it is still the same.
    Pace {
        slot: usize,
        flow: u64,
        tick: u64,
    },
    Think(usize),
    Sample,
    End,
}

#[derive(Debug, Default)]
struct Slot {
    group: usize,
    flow: Option<Carrier>,
}

/// Settings of a run in addition to its plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// A process to be sent SIGUSR1 when the measured time begins.
    pub signal: Option<i32>,
    /// A cgroup whose sockops programs are sampled with the sockets.
    pub programs: Option<&'a Path>,
}

/// Runs a plan and writes its record into the folder `out`.
///
/// # Errors
/// [`Error::Usage`] for a plan that does not fit this host, [`Error::Io`]; also when there is no process to
/// signal, and when programs cannot be counted. Failed connections are
/// rows of the record.
pub fn run(plan: &Plan, out: &Path, beside: Beside<'_>) -> Result<PlayReport> {
    for server in plan.serve.iter().chain(&plan.serve_too) {
        start::serve(server)?;
    }
    let mut player = Player::prepare(plan)?;
    player.signal = beside.signal;
    player.programs = beside.programs.map(ProgramReader::open).transpose()?;
    lock_memory();
    player.play()?;
    player.finish(out)
}

struct Player<'a> {
    plan: &'a Plan,
    origin: Instant,
    poller: Poller,
    slots: Vec<Slot>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    queues: Vec<QdiscReader>,
    programs: Option<ProgramReader>,
    probes: Vec<Running>,
    ended: Vec<Ended>,
    begin: Arc<Mutex<Option<Instant>>>,
    changers: Changers,
    discarder: Discarder,
    record: Record,
    links: Vec<(std::net::IpAddr, u16)>,
    started: Vec<u64>,
    next_flow: u64,
    /// Connections whose sockets take more, by slot.
    hungry: Vec<usize>,
    running: usize,
    pending_starts: usize,
    over: bool,
    late_ns: Vec<u64>,
    seconds: f64,
    signal: Option<i32>,
    start_ns: u64,
}

impl<'a> Player<'a> {
    fn prepare(plan: &'a Plan) -> Result<Self> {
        let queues = plan.queues.iter().map(QdiscReader::open);
        let mut record = Record::default();
        let links = plan
            .links
            .iter()
            .map(|(address, name)| (*address, record.name(name)))
            .collect();
        let samples = (plan.duration_s * 1000.0) as usize / plan.sample_ms as usize + 2;
        let streams: usize = plan.flows.iter().map(|group| group.streams).sum();
        record
            .samples
            .reserve(samples.saturating_mul(streams).min(1 << 20));
        record.queues.reserve(samples * plan.queues.len());
        let ended = plan.foreign.iter();
        let ended = ended.map(|one| Ended::listen(one.netns.as_deref(), one.port));
        let begin = Arc::default();
        let probes = plan
            .probes
            .iter()
            .map(|probe| Running::prepare(probe, &begin));
        let mut player = Self {
            plan,
            origin: Instant::now(),
            poller: Poller::new()?,
            slots: Vec::new(),
            timers: BinaryHeap::new(),
            queues: queues.collect::<Result<_>>()?,
            programs: None,
            probes: probes.collect::<Result<_>>()?,
            ended: ended.collect::<Result<_>>()?,
            begin,
            changers: Changers::start(&plan.changes)?,
            discarder: Discarder::default(),
            record,
            links,
            started: vec![0; plan.flows.len()],
            next_flow: 0,
            hungry: Vec::new(),
            running: 0,
            pending_starts: 0,
            over: false,
            late_ns: Vec::with_capacity(samples),
            seconds: 0.0,
            signal: None,
            start_ns: 0,
        };
        player.schedule();
        Ok(player)
    }

    fn schedule(&mut self) {
        for (index, group) in self.plan.flows.iter().enumerate() {
            for start_s in group.starts_s() {
                let slot = self.slots.len();
                self.slots.push(Slot {
                    group: index,
                    flow: None,
                });
                self.start_at(slot, start_s);
            }
        }
        for (index, change) in self.plan.changes.iter().enumerate() {
            self.at(change.at_s, Timer::Change(index));
        }
        self.at(0.0, Timer::Sample);
        self.at(self.plan.duration_s, Timer::End);
    }

    fn at(&mut self, t_s: f64, timer: Timer) {
        self.timers.push(Reverse(((t_s * 1e9) as u64, timer)));
    }

    fn start_at(&mut self, slot: usize, t_s: f64) {
        self.pending_starts += 1;
        self.at(t_s, Timer::Start(slot));
    }

    fn now_s(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    fn play(&mut self) -> Result<()> {
        self.origin = start::next_start();
        *self.begin.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.origin);
        let wait = self.origin.saturating_duration_since(Instant::now());
        std::thread::sleep(wait);
        self.start_ns = start::begin(self.signal)?;
        self.sample_programs()?;
        let mut ready = Vec::new();
        while !self.over {
            let now_ns = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            while let Some((due_ns, timer)) = self.due(now_ns) {
                self.fire(timer, due_ns, now_ns)?;
            }
            if self.over {
                break;
            }
            let due_ns = self.timers.peek().map_or(0, |Reverse((due_ns, _))| *due_ns);
            let now_ns = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let hungry = std::mem::take(&mut self.hungry);
            let wait_ns = if hungry.is_empty() {
                due_ns.saturating_sub(now_ns)
            } else {
                0
            };
            let wait = Duration::from_nanos(wait_ns);
            ready.clear();
            ready.extend_from_slice(self.poller.wait(Some(wait))?);
            for event in &ready {
                self.advance(event.token)?;
            }
            for slot in hungry {
                if !ready.iter().any(|event| event.token == slot) {
                    self.advance(slot)?;
                }
            }
        }
        self.drain()
    }

    /// Takes the next timer out, if its time has come.
    fn due(&mut self, now_ns: u64) -> Option<(u64, Timer)> {
        let &Reverse(next) = self.timers.peek()?;
        let is_due = next.0 <= now_ns && !self.over;
        is_due.then(|| {
            self.timers.pop();
            next
        })
    }

    fn fire(&mut self, timer: Timer, due_ns: u64, now_ns: u64) -> Result<()> {
        match timer {
            Timer::Change(index) => self.changers.make(&self.plan.changes[index])?,
            Timer::Start(slot) => {
                self.pending_starts -= 1;
                self.start(slot)?;
            }
            Timer::Cut { slot, flow } => {
                let now_s = self.now_s();
                let running = self.slots[slot].flow.as_mut();
                if let Some(running) = running.filter(|running| running.row().flow == flow) {
                    let cut = running.cut(now_s);
                    self.handle(slot, cut)?;
                }
            }
            Timer::Pace { slot, flow, tick } => self.pace(slot, flow, tick)?,
            Timer::Think(slot) => self.think(slot)?,
            Timer::Sample => {
                self.late_ns.push(now_ns - due_ns);
                self.sample(due_ns as f64 / 1e9)?;
                let next_ns = due_ns + self.plan.sample_ms * 1_000_000;
                // A missed sample is skipped, not taken later.
                let skipped = now_ns.saturating_sub(next_ns) / (self.plan.sample_ms * 1_000_000);
                let next_ns = next_ns + skipped * self.plan.sample_ms * 1_000_000;
                self.timers.push(Reverse((next_ns, Timer::Sample)));
            }
            Timer::End => {
                self.seconds = self.now_s();
                self.over = true;
            }
        }
        Ok(())
    }

    fn start(&mut self, slot: usize) -> Result<()> {
        let index = self.slots[slot].group;
        let group = &self.plan.flows[index];
        let number = self.started[index];
        let now_s = self.now_s();
        if group.connections.is_some_and(|all| number >= all) || now_s >= group.end_s {
            self.end_if_idle();
            return Ok(());
        }
        self.started[index] += 1;
        let wanted_bytes = match &group.work {
            Work::Sized { bytes } => bytes[number as usize % bytes.len()],
            _ => 0,
        };
        let row = FlowRow {
            wanted_bytes,
            warmup: number < group.warmup,
            ..FlowRow::begun(self.next_flow, index, group.server(number), now_s)
        };
        self.next_flow += 1;
        let started = netns::inside(group.netns.as_deref(), || {
            Carrier::start(group, row.clone(), now_s)
        });
        let flow = match started {
            Ok(flow) => flow,
            Err(error) => {
                let error = Some(error.with_remedy());
                self.record.flows.push(FlowRow { error, ..row });
                return self.again(slot);
            }
        };
        if let Work::Timed { .. } = group.work {
            let flow = row.flow;
            self.at(group.end_s, Timer::Cut { slot, flow });
        }
        if group.source.is_some() {
            let (flow, tick) = (row.flow, 0);
            self.at(now_s, Timer::Pace { slot, flow, tick });
        }
        self.poller.add(flow.socket(), slot, Interest::Edges)?;
        self.running += 1;
        self.slots[slot].flow = Some(flow);
        Ok(())
    }

    fn advance(&mut self, slot: usize) -> Result<()> {
        let now_s = self.now_s();
        let Slot { group, flow } = &mut self.slots[slot];
        let Some(flow) = flow else {
            return Ok(());
        };
        let work = &self.plan.flows[*group].work;
        let connecting = !flow.is_established();
        let after = flow.advance(work, now_s, &mut self.discarder);
        match work {
            Work::Timed { seconds: Some(s) } if connecting && flow.is_established() => {
                let flow = flow.row().flow;
                self.at(now_s + s, Timer::Cut { slot, flow });
            }
            _ => {}
        }
        self.handle(slot, after)
    }

    /// A source's next tick, until its connection is over.
    fn pace(&mut self, slot: usize, number: u64, tick: u64) -> Result<()> {
        let Slot { group, flow } = &mut self.slots[slot];
        let (Some(source), Some(flow)) = (self.plan.flows[*group].source, flow) else {
            return Ok(());
        };
        if flow.row().flow != number {
            return Ok(());
        }
        flow.grant(&source, tick);
        let (now_s, tick) = (self.now_s(), tick + 1);
        let flow = number;
        self.at(now_s + Source::TICK_S, Timer::Pace { slot, flow, tick });
        self.advance(slot)
    }

    fn handle(&mut self, slot: usize, after: Result<After>) -> Result<()> {
        let now_s = self.now_s();
        let group = &self.plan.flows[self.slots[slot].group];
        match after {
            Ok(After::Wait) => Ok(()),
            Ok(After::More) => {
                if !self.hungry.contains(&slot) {
                    self.hungry.push(slot);
                }
                Ok(())
            }
            Ok(After::Exchanged) => {
                let think_ms = match group.work {
                    Work::Exchange { think_ms, .. } => think_ms,
                    _ => 0.0,
                };
                if let Some(flow) = &mut self.slots[slot].flow {
                    self.record.flows.push(flow.exchanged(&group.work, now_s));
                }
                if now_s < group.end_s {
                    self.at(now_s + think_ms / 1e3, Timer::Think(slot));
                    return Ok(());
                }
                self.close(slot, None)
            }
            Ok(After::Over) => self.close(slot, None),
            Err(error) => self.close(slot, Some(error.with_remedy())),
        }
    }

    /// Takes a connection out, notes it, and lets the stream go on. Exchanges have been noted.
    fn close(&mut self, slot: usize, error: Option<String>) -> Result<()> {
        let now_s = self.now_s();
        if let Some(mut flow) = self.slots[slot].flow.take() {
            self.running -= 1;
            if error.is_some() {
                if flow.row().end_s.is_none() {
                    flow.note_end(now_s);
                }
                self.record.flows.push(flow.into_row(error));
            } else if flow.owes_row() {
                self.record.flows.push(flow.into_row(None));
            }
        }
        self.again(slot)
    }

    fn again(&mut self, slot: usize) -> Result<()> {
        let index = self.slots[slot].group;
        let group = &self.plan.flows[index];
        let more = group
            .connections
            .is_none_or(|all| self.started[index] < all);
        // Timed to the group's end, one endless exchange, or each with its own start: a stream has
        // only one connection.
        let once = !group.at_s.is_empty()
            || matches!(
                group.work,
                Work::Timed { seconds: None } | Work::Exchange { .. }
            );
        let next_s = self.now_s() + group.gap_ms / 1e3;
        if more && !once && next_s < group.end_s && !self.over {
            self.start_at(slot, next_s);
        } else {
            self.end_if_idle();
        }
        Ok(())
    }

    /// Nothing runs and nothing will: the rest of the time would be idle. Timed runs keep their
    /// length, since their last connections end with it.
    fn end_if_idle(&mut self) {
        if self.running == 0 && self.pending_starts == 0 && !self.over {
            self.seconds = self.now_s();
            self.over = true;
        }
    }

    fn think(&mut self, slot: usize) -> Result<()> {
        let flow_number = self.next_flow;
        let now_s = self.now_s();
        let Slot { group, flow } = &mut self.slots[slot];
        let group = &self.plan.flows[*group];
        if now_s >= group.end_s {
            return self.close(slot, None);
        }
        if let Some(flow) = flow {
            self.next_flow += 1;
            flow.next_exchange(&group.work, flow_number, now_s);
        }
        self.advance(slot)
    }
}
