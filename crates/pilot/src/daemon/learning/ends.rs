//! The learner's ends of the memory shared with the BPF programs. Tests put queues and maps in their place.

use std::{io, time::Duration};

use tcpilot_abi::tp_record;
use tcpilot_kernel::{ChoiceDists, ConnStarts, Ends, Heartbeat, Live, Records, Sampler};

use super::{choice_dists::Table, effect::AssignmentTable};

/// The records of connections.
pub trait RecordSource: Send {
    /// Takes the records that are there.
    ///
    /// # Errors
    /// Something was no record; the others are delivered nevertheless.
    fn poll(&mut self, each: &mut dyn FnMut(&tp_record)) -> io::Result<()>;
    /// The number of records lost so far.
    fn dropped(&self) -> u64;
}

impl RecordSource for Records {
    fn poll(&mut self, each: &mut dyn FnMut(&tp_record)) -> io::Result<()> {
        let polled = Records::poll(self, Duration::ZERO, each);
        polled.map(drop).map_err(io::Error::other)
    }

    fn dropped(&self) -> u64 {
        Records::dropped(self)
    }
}

/// The heartbeat to the programs: without it no choice distribution is valid.
pub trait LifeSign: Send {
    /// Marks the learner as alive.
    fn renew(&self);
    /// Marks it as dead.
    fn stop(&self);
}

impl LifeSign for Heartbeat {
    fn renew(&self) {
        Heartbeat::renew(self);
    }

    fn stop(&self) {
        Heartbeat::stop(self);
    }
}

/// Counts the open connections.
pub trait OpenConnections {
    /// The open connections by path.
    ///
    /// # Errors
    /// They cannot be read.
    fn live(&self) -> io::Result<Live>;
}

impl OpenConnections for ConnStarts {
    fn live(&self) -> io::Result<Live> {
        ConnStarts::live(self).map_err(io::Error::other)
    }
}

/// All of them.
pub struct LearnerEnds {
    pub choice_dists: Box<dyn Table>,
    pub assignment_buckets: Box<dyn AssignmentTable>,
    pub records: Box<dyn RecordSource>,
    pub heartbeat: Box<dyn LifeSign>,
    /// Looks at long connections; `None`: nobody does.
    pub sampler: Option<Sampler>,
    pub conn_starts: Box<dyn OpenConnections>,
}

impl From<Ends> for LearnerEnds {
    fn from(ends: Ends) -> LearnerEnds {
        let choice_dists: ChoiceDists = ends.choice_dists;
        LearnerEnds {
            choice_dists: Box::new(choice_dists),
            assignment_buckets: Box::new(ends.assignment_buckets),
            records: Box::new(ends.records),
            heartbeat: Box::new(ends.heartbeat),
            sampler: Some(ends.sampler),
            conn_starts: Box::new(ends.conn_starts),
        }
    }
}
