//! The learner's thread: its turns, its answers, its heartbeat.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use tcpilot_abi::tp_record;
use tcpilot_kernel::Sampler;

use super::{
    Question,
    ends::{LifeSign, RecordSource},
    learners::Learners,
    liveness::Liveness,
    sampling::MoveRequests,
};
use crate::clocks;

/// Interval of the turns: the learner reads records and writes choice distributions. The BPF programs wake
/// nobody.
const TURN: Duration = Duration::from_millis(50);
/// Choice distributions of a policy per turn while earlier knowledge is written: some 10 ms of work.
const DISTS_AT_FIRST: usize = 8192;
/// Choice distributions of a policy per turn, in addition to the records' own: less than half a hundredth of
/// a processor. If the neighbours of a million distributions change, rewriting these takes six minutes.
const DISTS_PER_TURN: usize = 128;
/// Choice distributions for each record of a turn: one for its path, and one for the nodes above.
const DISTS_PER_RECORD: usize = 2;
/// Interval of the heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Records between two looks at the clock, to keep the heartbeat going during a flood of records.
const RECORDS_AT_ONCE: usize = 4096;
/// Everything moved to the thread.
pub(super) struct Worker {
    pub(super) learners: Learners,
    pub(super) records: Box<dyn RecordSource>,
    pub(super) heartbeat: Box<dyn LifeSign>,
    pub(super) batch: Vec<tp_record>,
    pub(super) renewed: Option<Instant>,
    /// Whether choice distributions of earlier knowledge are still to be written.
    pub(super) is_filling: bool,
    /// The count of records when choice distributions were last written.
    pub(super) published: u64,
    /// Looks at long connections, and the interval; `None` for never, or after the sampler's thread has
    /// begun.
    pub(super) sampler: Option<(Sampler, Duration)>,
    /// The channel to the sampler's thread, once it has begun.
    pub(super) requests: Option<MoveRequests>,
    pub(super) liveness: Arc<Liveness>,
}

impl Worker {
    /// Works until `Learning` is dropped.
    pub(super) fn work(mut self, questions: &Receiver<Question>) {
        let mut due = Instant::now();
        loop {
            match questions.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(question) => self.answer(question),
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

    pub(super) fn answer(&mut self, question: Question) {
        // Records from before the question are part of the answer.
        self.take_in();
        question(&mut self.learners);
    }

    /// One turn of the thread. It writes choice distributions before it renews the heartbeat: after a long stop no
    /// old distribution becomes valid before the learner has looked at it again.
    pub(super) fn turn(&mut self) {
        let begun = Instant::now();
        self.take_in();
        self.learners.turn_effects();
        self.publish();
        self.renew_heartbeat();
        self.learners.turns.add(begun.elapsed().as_secs_f64(), 1);
    }

    /// Writes the choice distributions requested by new records, and some of the waiting ones.
    pub(super) fn publish(&mut self) {
        let records = (self.learners.records - self.published) as usize;
        self.published = self.learners.records;
        let others = if self.is_filling {
            DISTS_AT_FIRST
        } else {
            DISTS_PER_TURN
        };
        let is_done = self.learners.publish(others + DISTS_PER_RECORD * records);
        self.is_filling &= !is_done;
    }

    pub(super) fn take_in(&mut self) {
        if self.learners.is_resting {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let result = self.records.poll(&mut |record| batch.push(*record));
        if let Err(error) = result {
            tracing::debug!(%error, "some records could not be read");
        }
        self.learners.dropped = self.records.dropped();
        for some in batch.chunks(RECORDS_AT_ONCE) {
            some.iter().for_each(|record| self.learners.take(record));
            if self.renewed.is_some() {
                self.renew_heartbeat();
            }
        }
        batch.clear();
        self.batch = batch;
        for request in self.learners.requests.drain(..) {
            // Without the sampler's thread nothing is moved.
            let _ = self
                .requests
                .as_ref()
                .map(|requests| requests.send(request));
        }
    }

    pub(super) fn renew_heartbeat(&mut self) {
        let now = clocks::instant();
        let is_due = |last: Instant| now.saturating_duration_since(last) >= HEARTBEAT;
        if self.renewed.is_none_or(is_due) {
            self.heartbeat.renew();
            self.liveness.renew();
            self.renewed = Some(now);
        }
    }
}
