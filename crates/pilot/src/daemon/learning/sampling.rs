//! A thread for long connections: it samples them now and then, so they update the learner while they live,
//! and moves some to another algorithm. The learner's thread must not wait, so it cannot do this: an iterator
//! takes the lock of each socket, and enters each network namespace.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use tcpilot_kernel::clock::processor_time;
use tcpilot_kernel::{MoveRequest, Sampler};

/// The interval is at least this many times the processor time of the last look. So looks take at most a
/// hundredth of a processor with any number of connections and namespaces.
const REST: u32 = 100;

/// The channel for move requests from the learner's thread.
pub type MoveRequests = Sender<MoveRequest>;

/// Starts the thread. It ends after the channel is dropped. Nobody waits for its end.
///
/// # Errors
/// The thread cannot be started.
pub fn begin(sampler: Sampler, every: Duration) -> std::io::Result<MoveRequests> {
    let (requests, requested) = channel();
    let builder = std::thread::Builder::new().name("sampler".to_owned());
    builder.spawn(move || work(every, &requested, |moves| look(&sampler, moves)))?;
    Ok(requests)
}

/// Looks once; returns the processor time used.
fn look(sampler: &Sampler, moves: &[MoveRequest]) -> Duration {
    let begun = processor_time();
    if let Err(error) = sampler.sample(moves) {
        tracing::debug!(%error, "long connections could not be looked at");
    }
    processor_time().saturating_sub(begun)
}

fn work(
    every: Duration,
    requested: &Receiver<MoveRequest>,
    mut look: impl FnMut(&[MoveRequest]) -> Duration,
) {
    let mut due = Instant::now() + every;
    let mut moves: Vec<MoveRequest> = Vec::new();
    loop {
        match requested.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(request) => {
                // The later request for a connection knows more.
                moves.retain(|known| known.cookie != request.cookie);
                moves.push(request);
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

    fn request(cookie: u64, to: u8) -> MoveRequest {
        MoveRequest {
            cookie,
            from: 0,
            to,
        }
    }

    /// The moves of each of `count` looks, and the time of all looks, if each takes `took` of processor time.
    fn looks(
        count: usize,
        took: Duration,
        requests: &[MoveRequest],
    ) -> (Vec<Vec<MoveRequest>>, Duration) {
        let (sender, requested) = channel();
        requests
            .iter()
            .for_each(|request| sender.send(*request).unwrap());
        let (mut seen, mut sender, begun) = (Vec::new(), Some(sender), Instant::now());
        work(Duration::from_millis(5), &requested, |moves| {
            seen.push(moves.to_vec());
            if seen.len() == count {
                sender = None;
            }
            took
        });
        (seen, begun.elapsed())
    }

    #[test]
    fn the_last_request_for_a_connection_counts_once() {
        let requests = [request(7, 1), request(8, 1), request(7, 2)];
        let (seen, _) = looks(3, Duration::ZERO, &requests);
        assert_eq!(seen, [vec![request(8, 1), request(7, 2)], vec![], vec![]]);
    }

    #[test]
    fn slow_look_is_not_repeated_soon() {
        let took = Duration::from_millis(3);
        let (_, all) = looks(2, took, &[]);
        assert!(all >= took * REST, "{all:?}");
        let (seen, _) = looks(2, Duration::ZERO, &[]);
        assert_eq!(seen.len(), 2);
    }
}
