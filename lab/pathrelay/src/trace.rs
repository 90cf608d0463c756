//! A link whose rate follows a trace, in the format of mahimahi: each line is the time in milliseconds of one
//! opportunity for a packet of 1500 bytes, and the last is also the period of the trace
//! (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, and mm-link(1)).

use std::{fs, io, path::Path};

/// Bytes passing at each opportunity: 1500 of IP, and the header of mahimahi's devices.
pub const OPPORTUNITY: usize = 1504;
const MS: u64 = 1_000_000;

/// The times of the opportunities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    times_ms: Vec<u64>,
}

impl Trace {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no trace; with its name and line.
    pub fn read(path: &Path) -> io::Result<Trace> {
        let text = fs::read_to_string(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        Trace::parse(&text).map_err(|what| {
            let text = format!("{}: {what}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    fn parse(text: &str) -> Result<Trace, String> {
        let mut times_ms = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| Err(format!("line {}: '{line}' is {what}", number + 1));
            match line.trim().parse::<u64>() {
                Ok(ms) if times_ms.last().is_some_and(|last| ms < *last) => {
                    return wrong("before the line above it");
                }
                Ok(ms) => times_ms.push(ms),
                Err(_) => return wrong("no whole number of milliseconds"),
            }
        }
        match times_ms.last() {
            Some(&last) if last > 0 => Ok(Trace { times_ms }),
            _ => Err("it has no time above 0".into()),
        }
    }

    /// When opportunity `number` comes, in nanoseconds from the start.
    fn at_ns(&self, number: usize) -> u64 {
        let count = self.times_ms.len();
        let period_ms = self.times_ms.last().copied().unwrap_or(1);
        let round = (number / count) as u64;
        (round * period_ms + self.times_ms[number % count]) * MS
    }
}

/// The link's counters until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Time of CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub queue_bytes: usize,
    pub queue_packets: usize,
    /// Packets dropped at the full queue.
    pub dropped: u64,
    pub passed_bytes: u64,
    pub passed_packets: u64,
    /// Bytes offered by the trace's opportunities, used or not.
    pub offered_bytes: u64,
}

/// A trace in use.
#[derive(Debug)]
pub struct Follower {
    trace: Trace,
    started_ns: u64,
    next: usize,
    /// Bytes of the first packet already passed on.
    part: usize,
    pub offered_bytes: u64,
}

impl Follower {
    /// Starts the trace at `started_ns`.
    #[must_use]
    pub fn new(trace: Trace, started_ns: u64) -> Follower {
        Follower {
            trace,
            started_ns,
            next: 0,
            part: 0,
            offered_bytes: 0,
        }
    }

    /// When the next opportunity comes.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.started_ns + self.trace.at_ns(self.next)
    }

    /// Takes the opportunity; `first` is the length of the first packet, and `pass` lets it leave and gives the
    /// length of the one behind it. The rest of a packet passes at the next opportunity.
    pub fn take(&mut self, mut first: Option<usize>, mut pass: impl FnMut() -> Option<usize>) {
        self.next += 1;
        self.offered_bytes += OPPORTUNITY as u64;
        let mut room = OPPORTUNITY;
        while let Some(len) = first {
            let used = room.min(len - self.part);
            self.part += used;
            room -= used;
            if self.part < len {
                return;
            }
            self.part = 0;
            first = pass();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn a_trace_repeats_after_its_last_time() {
        let trace = Trace::parse("0\n5\n5\n20\n").unwrap();
        let times: Vec<_> = (0..6).map(|number| trace.at_ns(number) / MS).collect();
        assert_eq!(times, [0, 5, 5, 20, 20, 25]);
    }

    #[test]
    fn invalid_trace_error_names_its_line() {
        for (text, told) in [
            ("", "it has no time above 0"),
            ("0\n0\n", "it has no time above 0"),
            ("5\n4\n", "line 2: '4' is before the line above it"),
            ("5\nx\n", "line 2: 'x' is no whole number of milliseconds"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err(), told);
        }
    }

    /// Lengths of the packets passing at each of some opportunities.
    fn passed(lengths: &[usize], opportunities: usize) -> Vec<Vec<usize>> {
        let mut follower = Follower::new(Trace::parse("1\n").unwrap(), 0);
        let mut queue: VecDeque<usize> = lengths.iter().copied().collect();
        (0..opportunities)
            .map(|_| {
                let mut left = Vec::new();
                follower.take(queue.front().copied(), || {
                    left.extend(queue.pop_front());
                    queue.front().copied()
                });
                left
            })
            .collect()
    }

    #[test]
    fn opportunity_bytes_span_packet_boundaries() {
        // Four bytes of the second pass with the first.
        assert_eq!(passed(&[1500, 1500], 2), [vec![1500], vec![1500]]);
        assert_eq!(passed(&[3000], 3), [vec![], vec![3000], vec![]]);
        assert_eq!(
            passed(&[500, 500, 500, 500], 2),
            [vec![500, 500, 500], vec![500]]
        );
        // An unused opportunity is gone.
        assert_eq!(passed(&[], 2), vec![Vec::<usize>::new(); 2]);
    }
}
