//! The learner's thread, run step by step by a test: the test decides when a turn comes, and when the thread hangs.

use std::{
    cell::{Cell, RefCell},
    mem,
};

use super::{Learners, Learning, Question, State, Worker};

/// Everything of the thread, and the questions that wait for it.
pub struct Thread {
    worker: RefCell<Box<Worker>>,
    waiting: RefCell<Vec<Question>>,
    hangs: Cell<bool>,
}

impl Thread {
    /// Takes a question. A thread that hangs answers later than anybody waits.
    pub(super) fn send(&self, question: Question) {
        self.waiting.borrow_mut().push(question);
        self.answer();
    }

    fn answer(&self) {
        if !self.hangs.get() {
            let waiting = mem::take(&mut *self.waiting.borrow_mut());
            let mut worker = self.worker.borrow_mut();
            waiting
                .into_iter()
                .for_each(|question| worker.answer(question));
        }
    }
}

impl Learning {
    /// What [`Learning::begin`] does, without a thread.
    pub fn begin_stepped(&mut self, ticks_per_s: u32) {
        let State::Waits(worker) = mem::replace(&mut self.state, State::Ended) else {
            return;
        };
        worker.borrow_mut().learners.ticks_per_s = ticks_per_s;
        self.state = State::Stepped(Thread {
            worker,
            waiting: RefCell::default(),
            hangs: Cell::new(false),
        });
    }

    /// Lets the thread hang, or go on.
    pub fn hang(&self, hangs: bool) {
        if let State::Stepped(thread) = &self.state {
            thread.hangs.set(hangs);
            thread.answer();
        }
    }

    /// Looks at the learners, whatever their thread does.
    pub fn look<T>(&self, look: impl FnOnce(&mut Learners) -> T) -> Option<T> {
        match &self.state {
            State::Stepped(thread) => Some(look(&mut thread.worker.borrow_mut().learners)),
            _ => None,
        }
    }

    /// A turn of the thread, unless it hangs or is busy.
    pub fn turn(&self) {
        let State::Stepped(thread) = &self.state else {
            return;
        };
        if thread.hangs.get() {
            return;
        }
        thread.answer();
        if let Ok(mut worker) = thread.worker.try_borrow_mut() {
            worker.turn();
        }
    }
}
