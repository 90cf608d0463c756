//! The learner in the daemon: a thread of its own. It reads the records of connections, learns, and writes
//! the choice distributions for the BPF programs (docs/understand/decisions/18-learner-in-the-daemon.md).
//!
//! The learner's thread never waits for the daemon's first thread. The first thread answers requests: it
//! sends the learner questions through a channel, and waits for each answer for a bounded time. Only the
//! learner's thread renews the heartbeat. If it hangs, no distribution is valid after ten seconds.

mod arms;
pub mod choice_dists;
mod clock;
mod counts;
pub mod effect;
pub mod ends;
mod fleet;
mod greedy;
mod histogram;
pub mod learners;
mod liveness;
mod long;
mod measures;
mod moves;
mod origin;
mod policy_learner;
mod restore;
mod sampling;
mod switches;
pub mod translate;
mod views;
mod worker;

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    io,
    sync::Arc,
    sync::mpsc::{Receiver, Sender, channel, sync_channel},
    thread::JoinHandle,
    time::Duration,
};

use tcpilot_config::{Config, LearnerKind};
use tcpilot_kernel::{Live, Sampler};

pub use clock::Clock;
pub use counts::Counts;
pub use effect::secrets;
use ends::{LearnerEnds, LifeSign, OpenConnections, RecordSource};
pub use fleet::{FleetPolicy, no_fleet};
pub use greedy::Greedy;
use learners::Learners;
use liveness::Liveness;
pub use policy_learner::PolicySettings;
pub use restore::{Restored, policy_settings};
pub use views::{KnownPath, Netns};
use worker::Worker;

use crate::{
    clocks,
    figures::{EffectReport, FleetReport, LearningStatus},
    state::Knowledge,
};
use effect::{Effect, FleetEffect};

/// Time to wait for an answer of the thread: longer than one of its turns.
const PATIENCE: Duration = Duration::from_secs(5);
/// Paths in one answer of the thread. A longer list takes several questions.
const PAGE: usize = if cfg!(test) { 16 } else { 4096 };

/// The longest trial: a month.
pub const LONGEST_TRIAL_S: u64 = 31 * 24 * 3600;

/// A question to the thread.
type Question = Box<dyn FnOnce(&mut Learners) + Send>;

/// A question that sends its answer, and where the answer comes.
fn boxed<T: Send + 'static>(
    question: impl FnOnce(&mut Learners) -> T + Send + 'static,
) -> (Question, Receiver<T>) {
    let (answer, answered) = sync_channel(1);
    let question = Box::new(move |learners: &mut Learners| {
        // The asker may have given up. The channel has room for one answer, so this never blocks.
        let _ = answer.try_send(question(learners));
    });
    (question, answered)
}

/// The learners for the daemon's first thread: themselves until their thread begins, then a way to ask it.
pub struct Learning {
    state: State,
    /// Whether the next save has to write everything.
    save_all: Cell<bool>,
    /// The thread's heartbeats.
    liveness: Arc<Liveness>,
    /// Counts open connections.
    conn_starts: Box<dyn OpenConnections>,
}

enum State {
    Waits(RefCell<Box<Worker>>),
    Works {
        questions: Sender<Question>,
        thread: Option<JoinHandle<()>>,
    },
    Ended,
    #[cfg(test)]
    Stepped(stepped::Thread),
}

impl Learning {
    /// Makes everything but the thread. It writes choice distributions, so the first connection finds the earlier
    /// knowledge.
    fn new(
        learners: Learners,
        records: Box<dyn RecordSource>,
        heartbeat: Box<dyn LifeSign>,
        sampler: Option<(Sampler, Duration)>,
        conn_starts: Box<dyn OpenConnections>,
    ) -> Learning {
        let liveness = Arc::new(Liveness::new());
        let mut worker = Worker {
            liveness: Arc::clone(&liveness),
            learners,
            records,
            heartbeat,
            batch: Vec::new(),
            renewed: None,
            is_filling: true,
            published: 0,
            sampler,
            requests: None,
        };
        worker.publish();
        worker.renew_heartbeat();
        Learning {
            state: State::Waits(RefCell::new(Box::new(worker))),
            save_all: Cell::new(false),
            liveness,
            conn_starts,
        }
    }

    /// Whether the programs may choose by choice distributions.
    pub fn choice_dists_are_valid(&self) -> bool {
        self.liveness.are_valid()
    }

    /// How often choice distributions became stale since the start.
    pub fn times_stale(&self) -> u64 {
        self.liveness.times_stale()
    }

    /// Logs stale choice distributions, once for each time.
    pub fn log_stale(&self) {
        self.liveness.log_stale();
    }

    /// Gives a heartbeat just before the programs are attached for the first time. Loading them may have taken longer
    /// than choice distributions are valid.
    pub fn begin_choosing(&self) {
        if let State::Waits(worker) = &self.state {
            let mut worker = worker.borrow_mut();
            worker.heartbeat.renew();
            worker.liveness.begin();
            worker.renewed = Some(clocks::instant());
        }
    }

    /// Starts the thread. `ticks_per_s` is the kernel's tick, not known before.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn begin(&mut self, ticks_per_s: u32) -> std::io::Result<()> {
        let State::Waits(worker) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        let mut worker = worker.into_inner();
        worker.learners.ticks_per_s = ticks_per_s;
        if let Some((sampler, every)) = worker.sampler.take() {
            worker.requests = Some(sampling::begin(sampler, every)?);
        }
        let (questions, asked) = channel();
        let builder = std::thread::Builder::new().name("learner".to_owned());
        let thread = builder.spawn(move || worker.work(&asked))?;
        self.state = State::Works {
            questions,
            thread: Some(thread),
        };
        Ok(())
    }

    /// Lets the thread do something with its learners; `None` if it does not answer in time. If it has given no
    /// heartbeat for too long, this does not wait at all.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Learners) -> T + Send + 'static,
    ) -> Option<T> {
        match &self.state {
            State::Waits(worker) => Some(question(&mut worker.borrow_mut().learners)),
            State::Ended => None,
            _ if !self.liveness.are_valid() => None,
            State::Works { questions, .. } => {
                let (question, answered) = boxed(question);
                questions.send(question).ok()?;
                answered.recv_timeout(PATIENCE).ok()
            }
            #[cfg(test)]
            State::Stepped(thread) => {
                let (question, answered) = boxed(question);
                thread.send(question);
                answered.try_recv().ok()
            }
        }
    }

    /// Calls `each` with every path known to a learner.
    ///
    /// # Errors
    /// The thread does not answer. Paths are missing then.
    pub fn for_each_path(&self, mut each: impl FnMut(KnownPath)) -> io::Result<()> {
        let live = Arc::new(self.live());
        let mut from = Some((0, 0));
        while let Some(at) = from {
            let live = Arc::clone(&live);
            let (page, next) = self
                .ask(move |learners| learners.page(at, PAGE, &live))
                .ok_or_else(|| io::Error::other("the learner does not answer; ask again"))?;
            page.into_iter().for_each(&mut each);
            from = next;
        }
        Ok(())
    }

    /// The knowledge about the addresses of a prefix: its paths, or if there is none, the nodes that choose
    /// for a new address there.
    pub fn explain(&self, remote: tcpilot_core::Prefix) -> Vec<KnownPath> {
        let live = self.live();
        self.ask(move |learners| learners.explain(&remote, &live))
            .unwrap_or_default()
    }

    /// The paths with the most connections, at most so many of each policy.
    pub fn busiest(&self, most: usize) -> Vec<KnownPath> {
        let live = self.live();
        self.ask(move |learners| learners.busiest(most, &live))
            .unwrap_or_default()
    }

    /// The open connections; none if they cannot be read.
    pub fn live(&self) -> Live {
        self.conn_starts.live().unwrap_or_else(|error| {
            tracing::warn!(%error, "open connections are not counted");
            Live::default()
        })
    }

    /// The learner's part of `status`.
    pub fn status(&self) -> Option<LearningStatus> {
        self.ask(|learners| learners.status())
    }

    /// The report on whether steering helps; `None` in a dry run.
    pub fn effect(&self) -> Option<EffectReport> {
        self.ask(Learners::effect_report).flatten()
    }

    /// The report on whether the fleet helps; `None` if no site is held back.
    pub fn fleet_effect(&self) -> Option<FleetReport> {
        self.ask(|learners| learners.fleet_report()).flatten()
    }

    /// Compares without pauses for this long. False if the thread does not answer, or nothing is compared.
    pub fn begin_trial(&self, seconds: u64) -> bool {
        let heard =
            self.ask(move |learners| learners.effect.as_mut().map(|e| e.set_trial(seconds)));
        heard.flatten().is_some()
    }

    /// Why steering is stopped at this address, if the guard has done so.
    pub fn stopped(&self, remote: tcpilot_core::Prefix) -> Option<String> {
        let stopped = self.ask(move |learners| {
            let effect = learners.effect.as_ref()?;
            effect.stopped(effect.assignment_bucket(&remote))
        });
        stopped.flatten()
    }

    /// Tells the learner whether a queue of this host is often full.
    pub fn set_full(&self, is_full: Option<bool>) {
        let _ = self.ask(move |learners| learners.effect.as_mut().map(|e| e.set_full(is_full)));
    }

    /// The present problems of the learner, a sentence each.
    pub fn limits(&self) -> Vec<String> {
        self.ask(|learners| learners.limits())
            .unwrap_or_else(Learning::hangs)
    }

    /// The problem of an unresponsive learner.
    pub fn hangs() -> Vec<String> {
        vec!["the learner does not answer: no choice distribution is valid after 10 s".to_owned()]
    }

    /// The changes since the last save; everything if the last save failed, or if `all` is set. `None` if the
    /// thread does not answer: there is nothing to save then.
    pub fn unsaved(&self, all: bool) -> Option<Vec<Knowledge>> {
        let all = all || self.save_all.take();
        let unsaved = self.ask(move |learners| learners.unsaved(all));
        // A late answer is lost, and its changes count as saved.
        self.save_all.set(unsaved.is_none());
        unsaved
    }

    /// Notes a failed save: the next one has everything.
    pub fn not_saved(&self) {
        self.save_all.set(true);
    }

    /// Stops reading records before an upgrade, so that the next program learns from them; or goes on.
    pub fn rest(&self, is_resting: bool) {
        let _ = self.ask(move |learners| learners.is_resting = is_resting);
    }

    /// Forgets the paths whose knowledge has faded. Call it only if the wall clock has been right for long.
    pub fn forget_old(&self) {
        let _ = self.ask(Learners::forget_old);
    }

    /// The cookies of the namespaces with paths of their own; `None` if the thread does not answer.
    pub fn known_netns(&self) -> Option<HashSet<u64>> {
        self.ask(|learners| learners.known_netns())
    }

    /// Forgets the paths of ended namespaces with these cookies; returns their number, `None` if the thread does not answer.
    pub fn forget_netns(&self, cookies: HashSet<u64>) -> Option<usize> {
        self.ask(move |learners| learners.forget_netns(&cookies))
    }

    /// All counts so far.
    pub fn counts(&self) -> Option<Counts> {
        self.ask(|learners| learners.counts())
    }

    /// Continues from the counts of a former program.
    pub fn go_on(&self, counts: Counts) {
        let _ = self.ask(move |learners| learners.go_on(counts));
    }

    /// Forgets everything; returns the number of paths.
    pub fn reset(&self) -> Option<u32> {
        self.save_all.set(true);
        self.ask(Learners::reset)
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        let State::Works { questions, thread } = std::mem::replace(&mut self.state, State::Ended)
        else {
            return;
        };
        drop(questions);
        // An error means a panic in the thread, so it has ended.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Learning {
    /// Makes the learner from its ends of the kernel's maps, with restored learners of the policies.
    ///
    /// In a dry run nothing is steered, so nothing is held out.
    pub fn open(ends: LearnerEnds, restored: Restored, keys: &Config) -> Learning {
        let mut dists = ends.choice_dists;
        // The choice distributions of a former daemon mean something else. Those of a program go with its costs.
        if restored.is_anew && keys.learner.common.kind == LearnerKind::THOMPSON {
            dists.clear();
        }
        let mut learners = Learners::new(restored.policies, dists, restored.clock.clone());
        let estimates = &keys.learner.estimates;
        learners.begin_now(estimates.sample_bytes);
        if !keys.dry_run {
            learners.effect = Some(Effect::open(
                keys.effect.clone(),
                restored.effect,
                ends.assignment_buckets,
                restored.clock,
            ));
        }
        if no_fleet(keys).is_none() {
            let clock = learners.clock.clone();
            learners.fleet = Some(FleetEffect::open(&keys.effect, restored.fleet, clock));
        }
        let every = Duration::from_secs(estimates.sample_s.into());
        let sampler = ends.sampler.filter(|_| !every.is_zero());
        let sampler = sampler.map(|sampler| (sampler, every));
        Learning::new(
            learners,
            ends.records,
            ends.heartbeat,
            sampler,
            ends.conn_starts,
        )
    }
}

#[cfg(test)]
pub mod stepped;
