//! Whether steering helped, as a trial would show it.
//!
//! Connections of one host compete for the same queues. If each connection drew whether it is steered, the
//! steered ones could gain the others' loss, and steering everything would gain nothing (Spang et al.,
//! *Unbiased Experiments in Congested Networks*, IMC 2021, doi 10.1145/3487552.3487851). So the unit of a trial
//! is a whole group of paths for a while, or a whole prefix for a week:
//!
//! - [`schedule`] decides which group is held out when;
//! - [`pairs`] sums the differences of pairs of blocks; sums of many hosts can be added;
//! - [`trial`] fills blocks with connections, and [`outcome`] keeps the figures of each;
//! - [`sequence`] gives an interval valid at every look;
//! - [`verdict`] states the meaning of the interval in one word, and how much data is missing;
//! - [`forecast`] estimates how long the next pairs take;
//! - [`history`] keeps how the interval narrowed over time;
//! - [`guard`] stops steering when it does harm, and tries again later.
//!
//! Nothing in here reads a clock, does I/O or draws a random number.

pub mod forecast;
pub mod guard;
pub mod history;
pub mod outcome;
pub mod pairs;
pub mod schedule;
pub mod sequence;
pub mod trial;
pub mod verdict;

pub use forecast::Pace;
pub use guard::Guard;
pub use history::{History, Point};
pub use outcome::{Effects, Means, Outcome};
pub use pairs::{Pair, Pairs};
pub use schedule::{Arm, Schedule};
pub use sequence::{Interval, Sequence};
pub use trial::Trial;
pub use verdict::{Aim, Verdict};
