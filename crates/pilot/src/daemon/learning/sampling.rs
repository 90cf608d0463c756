//! A thread that looks at long connections now and then, so that they update the learner while they live, and that moves
//! some of them. It is not the learner's thread, which must not wait: an iterator takes the lock of each
//! socket, and enters each network namespace.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use tcpilot_kernel::clock::processor_time;
use tcpilot_kernel::{Move, Sampler};

/// The interval is at least this many times the processor time of the last look. So looks take at most a
/// hundredth of a processor with any number of connections and namespaces.
const REST: u32 = 100;

/// The channel by which the learner's thread asks for moves.
pub type Wishes = Sender<Move>;

/// Starts the thread, which ends after the channel is dropped. Nobody waits for its end.
///
/// # Errors
/// The thread cannot be started.
pub fn begin(sampler: Sampler, every: Duration) -> std::io::Result<Wishes> {
    let (wishes, wished) = channel();
    let builder = std::thread::Builder::new().name("sampler".to_owned());
    builder.spawn(move || work(every, &wished, |moves| look(&sampler, moves)))?;
    Ok(wishes)
}

/// Looks once; returns the processor time that it took.
fn look(sampler: &Sampler, moves: &[Move]) -> Duration {
    let begun = processor_time();
    if let Err(error) = sampler.sample(moves) {
        tracing::debug!(%error, "long connections could not be looked at");
    }
    processor_time().saturating_sub(begun)
}

fn work(every: Duration, wished: &Receiver<Move>, mut look: impl FnMut(&[Move]) -> Duration) {
    let mut due = Instant::now() + every;
    let mut moves: Vec<Move> = Vec::new();
    loop {
        match wished.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(wish) => {
                // The later wish for a connection knows more.
                moves.retain(|known| known.cookie != wish.cookie);
                moves.push(wish);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let begun = Instant::now();
                let took = look(&moves);
                moves.clear();
                due = begun + every.max(took * REST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(cookie: u64, to: u8) -> Move {
        Move {
            cookie,
            from: 0,
            to,
        }
    }

    /// The moves of each of `count` looks, and the time of all looks, if each takes `took` of processor time.
    fn looks(count: usize, took: Duration, wishes: &[Move]) -> (Vec<Vec<Move>>, Duration) {
        let (sender, wished) = channel();
        wishes.iter().for_each(|wish| sender.send(*wish).unwrap());
        let (mut seen, mut sender, begun) = (Vec::new(), Some(sender), Instant::now());
        work(Duration::from_millis(5), &wished, |moves| {
            seen.push(moves.to_vec());
            if seen.len() == count {
                sender = None;
            }
            took
        });
        (seen, begun.elapsed())
    }

    #[test]
    fn each_wish_is_for_one_look_and_the_last_of_a_connection_counts() {
        let wishes = [wish(7, 1), wish(8, 1), wish(7, 2)];
        let (seen, _) = looks(3, Duration::ZERO, &wishes);
        assert_eq!(seen, [vec![wish(8, 1), wish(7, 2)], vec![], vec![]]);
    }

    #[test]
    fn a_look_that_takes_long_is_not_repeated_soon() {
        let took = Duration::from_millis(3);
        let (_, all) = looks(2, took, &[]);
        assert!(all >= took * REST, "{all:?}");
        let (seen, _) = looks(2, Duration::ZERO, &[]);
        assert_eq!(seen.len(), 2);
    }
}
