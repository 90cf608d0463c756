//! The learner in the daemon: a thread of its own, which reads what connections have shown, learns, and
//! writes the rows that the programs choose by (docs/understand/decisions/18-learner-in-the-daemon.md).
//!
//! It never waits for the daemon's other thread, which answers questions. That one puts a question to it
//! through a channel, and waits for the answer for a bounded time. Only this thread renews the sign of
//! life: if it hangs, no row is valid after ten seconds, whatever the other thread does.

mod arms;
mod clock;
mod counts;
mod effect;
mod histogram;
mod keep;
mod life;
mod long;
mod moves;
mod room;
mod rows;
mod sampling;
mod switches;
mod taught;
mod translate;
mod views;

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tcpilot_abi::tp_record;
use tcpilot_kernel::{Ends, Heartbeat, Records, Sampler};

pub use counts::Counts;
pub use effect::secrets;
pub use keep::{Restored, lessons};
use life::Life;
use room::Room;
use sampling::Wishes;
pub use views::{Netns, Seen};

use crate::pilot::{
    config,
    figures::{EffectReport, LearningStatus},
    state::Knowledge,
};
use effect::Effect;

/// How often records are taken in and rows written. The programs wake nobody.
const TURN: Duration = Duration::from_millis(50);
/// Rows of a policy in a turn while what was learned before is written: some 10 ms of work.
const ROWS_AT_FIRST: usize = 8192;
/// Rows of a policy in a turn beside those that records ask for: less than half a hundredth of a processor.
/// A million rows whose neighbours changed take six minutes.
const ROWS_PER_TURN: usize = 128;
/// Rows for each record of a turn: its path's, and as many of the nodes above.
const ROWS_PER_RECORD: usize = 2;
/// How often the sign of life is renewed.
const BEAT: Duration = Duration::from_secs(1);
/// Records between two looks at the clock: a flood of them must not stop the sign of life.
const RECORDS_AT_ONCE: usize = 4096;
/// Longer than the thread is busy with a turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Paths in one answer of the thread: the rest of a long list has to ask again.
const PAGE: usize = 4096;

/// No trial is longer: a month.
pub const LONGEST_TRIAL_S: u64 = 31 * 24 * 3600;

/// A question to the thread.
type Question = Box<dyn FnOnce(&mut Room) + Send>;

/// The daemon's end: the room itself until it begins, then a way to ask it.
pub struct Learning {
    state: State,
    /// The next save has to write all.
    save_all: Cell<bool>,
    /// Whether the thread gives signs of life.
    life: Arc<Life>,
}

enum State {
    Waits(RefCell<Box<Worker>>),
    Works {
        questions: Sender<Question>,
        thread: Option<JoinHandle<()>>,
    },
    Ended,
}

/// What moves to the thread.
struct Worker {
    room: Room,
    records: Records,
    heartbeat: Heartbeat,
    batch: Vec<tp_record>,
    beaten: Option<Instant>,
    /// Rows of what was learned before are still to be written.
    is_filling: bool,
    /// Records that had come when rows were written last.
    published: u64,
    /// Looks at long connections, and how often; `None`: never.
    sampler: Option<(Sampler, Duration)>,
    /// To that thread, once it has begun.
    wishes: Option<Wishes>,
    life: Arc<Life>,
}

impl Learning {
    /// Everything but the thread: rows are written, so the first connection finds what was learned before.
    fn new(
        room: Room,
        records: Records,
        heartbeat: Heartbeat,
        sampler: Option<(Sampler, Duration)>,
    ) -> Learning {
        let life = Arc::new(Life::new());
        let mut worker = Worker {
            life: Arc::clone(&life),
            room,
            records,
            heartbeat,
            batch: Vec::new(),
            beaten: None,
            is_filling: true,
            published: 0,
            sampler,
            wishes: None,
        };
        worker.publish();
        worker.beat();
        Learning {
            state: State::Waits(RefCell::new(Box::new(worker))),
            save_all: Cell::new(false),
            life,
        }
    }

    /// Whether the programs may choose by rows.
    pub fn rows_are_valid(&self) -> bool {
        self.life.are_valid()
    }

    /// How often they could not, since the start.
    pub fn times_void(&self) -> u64 {
        self.life.times_void()
    }

    /// Says in the log when that begins.
    pub fn tell_void(&self) {
        self.life.tell_void();
    }

    /// Starts the thread, once the kernel's tick is known.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&mut self, ticks_per_s: u32) -> std::io::Result<()> {
        let State::Waits(worker) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        let mut worker = worker.into_inner();
        worker.room.ticks_per_s = ticks_per_s;
        if let Some((sampler, every)) = worker.sampler.take() {
            worker.wishes = Some(sampling::begin(sampler, every)?);
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

    /// Has the thread do something with its room; `None` if it does not answer in time. If it has given no sign of
    /// life for long, nobody waits for it again.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Room) -> T + Send + 'static,
    ) -> Option<T> {
        match &self.state {
            State::Waits(worker) => Some(question(&mut worker.borrow_mut().room)),
            State::Ended => None,
            State::Works { .. } if !self.life.are_valid() => None,
            State::Works { questions, .. } => {
                let (answer, answered) = sync_channel(1);
                let question: Question = Box::new(move |room| {
                    // Nobody may wait for it any more; there is room for one answer, so it never waits.
                    let _ = answer.try_send(question(room));
                });
                questions.send(question).ok()?;
                answered.recv_timeout(PATIENCE).ok()
            }
        }
    }

    /// Calls `each` with every path that a learner knows.
    pub fn for_each_path(&self, mut each: impl FnMut(Seen)) {
        let mut from = Some((0, 0));
        while let Some(at) = from {
            let Some((page, next)) = self.ask(move |room| room.page(at, PAGE)) else {
                return;
            };
            page.into_iter().for_each(&mut each);
            from = next;
        }
    }

    /// What is known of the addresses of a prefix: its paths, or if there is none, what a stranger there
    /// would get.
    pub fn explain(&self, remote: tcpilot_core::Prefix) -> Vec<Seen> {
        self.ask(move |room| room.explain(&remote))
            .unwrap_or_default()
    }

    /// What the learner does.
    pub fn status(&self) -> Option<LearningStatus> {
        self.ask(|room| room.status())
    }

    /// Whether steering helps.
    pub fn effect(&self) -> Option<EffectReport> {
        self.ask(Room::effect_report).flatten()
    }

    /// Pairs without pause for so long. Whether the thread has heard it.
    pub fn begin_trial(&self, seconds: u64) -> bool {
        let heard = self.ask(move |room| room.effect.as_mut().map(|e| e.set_trial(seconds)));
        heard.flatten().is_some()
    }

    /// Why steering is stopped at this address, if the guard has done so.
    pub fn stopped(&self, remote: tcpilot_core::Prefix) -> Option<String> {
        let stopped = self.ask(move |room| {
            let effect = room.effect.as_ref()?;
            effect.stopped(effect.cell(&remote))
        });
        stopped.flatten()
    }

    /// Whether some queue of this host is often full.
    pub fn set_full(&self, is_full: Option<bool>) {
        let _ = self.ask(move |room| room.effect.as_mut().map(|e| e.set_full(is_full)));
    }

    /// What does not work as it should, a sentence each.
    pub fn limits(&self) -> Vec<String> {
        let hangs = || vec!["the learner does not answer: no row is valid after 10 s".to_owned()];
        self.ask(|room| room.limits()).unwrap_or_else(hangs)
    }

    /// What has changed since it was saved last; all if that failed, or is asked for. `None` if the thread
    /// does not answer: there is nothing to save then.
    pub fn unsaved(&self, all: bool) -> Option<Vec<Knowledge>> {
        let all = all || self.save_all.take();
        let unsaved = self.ask(move |room| room.unsaved(all));
        self.save_all.set(all && unsaved.is_none());
        unsaved
    }

    /// What was not saved after all is given again.
    pub fn not_saved(&self) {
        self.save_all.set(true);
    }

    /// Learns from nothing more, or goes on: what is learned from now on is for another program.
    pub fn rest(&self, is_resting: bool) {
        let _ = self.ask(move |room| room.is_resting = is_resting);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Option<Counts> {
        self.ask(|room| room.counts())
    }

    /// Goes on counting from here.
    pub fn go_on(&self, counts: Counts) {
        let _ = self.ask(move |room| room.go_on(counts));
    }

    /// Forgets everything; returns how many paths there were.
    pub fn reset(&self) -> Option<u32> {
        self.save_all.set(true);
        self.ask(Room::reset)
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        let State::Works { questions, thread } = std::mem::replace(&mut self.state, State::Ended)
        else {
            return;
        };
        drop(questions);
        // The thread has ended if it panicked; there is nobody left to tell.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Worker {
    /// Until nobody can ask any more.
    fn work(mut self, questions: &Receiver<Question>) {
        let mut due = Instant::now();
        loop {
            match questions.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(question) => {
                    // What was shown before the question is part of the answer.
                    self.take_in();
                    question(&mut self.room);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= due {
                self.turn();
                due = Instant::now() + TURN;
            }
        }
        self.heartbeat.stop();
    }

    /// Rows first: after a long stop none of the old ones is valid before it was looked at again.
    fn turn(&mut self) {
        let begun = Instant::now();
        self.take_in();
        if let Some(effect) = &mut self.room.effect {
            effect.turn();
        }
        self.publish();
        self.beat();
        self.room.turns.add(begun.elapsed().as_secs_f64(), 1);
    }

    /// The rows that new records ask for, and some of those that can wait.
    fn publish(&mut self) {
        let records = (self.room.records - self.published) as usize;
        self.published = self.room.records;
        let others = if self.is_filling {
            ROWS_AT_FIRST
        } else {
            ROWS_PER_TURN
        };
        let is_done = self.room.publish(others + ROWS_PER_RECORD * records);
        self.is_filling &= !is_done;
    }

    fn take_in(&mut self) {
        if self.room.is_resting {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let result = self
            .records
            .poll(Duration::ZERO, |record| batch.push(*record));
        if let Err(error) = result {
            tracing::debug!(%error, "some records could not be read");
        }
        self.room.dropped = self.records.dropped();
        for some in batch.chunks(RECORDS_AT_ONCE) {
            some.iter().for_each(|record| self.room.take(record));
            if self.beaten.is_some() {
                self.beat();
            }
        }
        batch.clear();
        self.batch = batch;
        for wish in self.room.wishes.drain(..) {
            // If that thread is gone, nothing is sampled, and nothing moved.
            let _ = self.wishes.as_ref().map(|wishes| wishes.send(wish));
        }
    }

    fn beat(&mut self) {
        if self.beaten.is_none_or(|last| last.elapsed() >= BEAT) {
            self.heartbeat.beat();
            self.life.sign();
            self.beaten = Some(Instant::now());
        }
    }
}

impl Learning {
    /// From what the kernel side shares, with learners for these policies.
    ///
    /// In a dry run nothing is steered, so nothing is held out.
    pub fn open(ends: Ends, taught: Restored, keys: &config::Config) -> Learning {
        let mut rows = ends.rows;
        if taught.is_anew {
            rows.clear(); // a former daemon's, which mean other things
        }
        let mut room = Room::new(taught.taught, Box::new(rows), taught.clock);
        let thompson = &keys.learner.thompson;
        room.begin_now(thompson.sample_bytes);
        if !keys.dry_run {
            let cells = Box::new(ends.cells);
            room.effect = Some(Effect::open(
                keys.effect.clone(),
                taught.effect,
                cells,
                taught.clock,
            ));
        }
        let every = Duration::from_secs(thompson.sample_s.into());
        let sampler = (!every.is_zero()).then_some((ends.sampler, every));
        Learning::new(room, ends.records, ends.heartbeat, sampler)
    }
}
