//! Datagrams at a constant rate, in parallel to the connections: a stream with measured delay and
//! loss, or pings, echoed by the other side.
//!
//! Sender and receiver are threads of this process, to share one clock; so the one-way delay is
//! measured too. A thread of its own for each sleeps most of the time.

use super::netns;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const NUMBER_BYTES: usize = 8;
/// Largest payload of UDP over IPv4.
const MOST_BYTES: usize = 65_507;
/// How long a receiver waits before it looks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(200);

/// A stream of datagrams.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Its name in the results.
    pub name: String,
    /// Namespace it is sent from; `None`: this one.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Its destination.
    pub to: SocketAddr,
    /// Namespace of the destination; `None`: the current one.
    #[serde(default)]
    pub to_netns: Option<PathBuf>,
    /// When the first is sent.
    pub start_s: f64,
    /// When no more are sent.
    pub end_s: f64,
    /// Time between two.
    pub interval_ms: f64,
    /// Payload of each.
    pub bytes: usize,
    /// Whether each comes back: then the round trip is measured.
    #[serde(default)]
    pub echo: bool,
}

impl Probe {
    /// # Errors
    /// [`Error::Usage`], naming the mistake.
    pub fn check(&self) -> Result<()> {
        let times = self.start_s >= 0.0 && self.end_s > self.start_s && self.end_s < 1e6;
        let sizes = (NUMBER_BYTES..=MOST_BYTES).contains(&self.bytes);
        if times && sizes && self.interval_ms >= 0.1 {
            return Ok(());
        }
        let text = "times, interval_ms (0.1 or more) and bytes (8 or more) contradict each other";
        Err(Error::Usage(format!("plan: probe {}: {text}", self.name)))
    }

    fn count(&self) -> usize {
        ((self.end_s - self.start_s) * 1e3 / self.interval_ms).ceil() as usize
    }

    fn due_s(&self, number: usize) -> f64 {
        self.start_s + number as f64 * self.interval_ms / 1e3
    }
}

/// One datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Datagram {
    /// When it was sent; 0 if it never was.
    pub sent_s: f64,
    /// When it arrived, or came back; `None`: it was lost.
    pub seen_s: Option<f64>,
}

/// A stream under way.
#[derive(Debug)]
pub struct Running {
    name: String,
    datagrams: Arc<Mutex<Vec<Datagram>>>,
}

impl Running {
    /// Opens the sockets, before the measured time, and starts the threads; they begin at the
    /// instant later stored in `begin`.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::Io`].
    pub fn prepare(probe: &Probe, begin: &Arc<Mutex<Option<Instant>>>) -> Result<Self> {
        let receiver = bound(probe.to_netns.as_deref(), probe.to)?;
        let any: IpAddr = if probe.to.is_ipv4() {
            [0; 4].into()
        } else {
            [0u16; 8].into()
        };
        let sender = bound(probe.netns.as_deref(), SocketAddr::new(any, 0))?;
        let datagrams = Arc::new(Mutex::new(vec![Datagram::default(); probe.count()]));
        let run = |work: fn(&Stream)| -> Result<()> {
            let stream = Stream {
                probe: probe.clone(),
                sender: sender.try_clone().map_err(Error::io("copying a socket"))?,
                receiver: receiver
                    .try_clone()
                    .map_err(Error::io("copying a socket"))?,
                datagrams: Arc::clone(&datagrams),
                begin: Arc::clone(begin),
            };
            std::thread::spawn(move || work(&stream));
            Ok(())
        };
        run(Stream::send)?;
        run(Stream::receive)?;
        if probe.echo {
            run(Stream::take_back)?;
        }
        Ok(Self {
            name: probe.name.clone(),
            datagrams,
        })
    }

    /// Its name and the datagrams sent.
    pub fn finish(self) -> (String, Vec<Datagram>) {
        let all = locked(&self.datagrams).clone();
        let sent = all.into_iter().filter(|one| one.sent_s > 0.0);
        (self.name, sent.collect())
    }
}

/// State shared by its threads.
struct Stream {
    probe: Probe,
    sender: UdpSocket,
    receiver: UdpSocket,
    datagrams: Arc<Mutex<Vec<Datagram>>>,
    begin: Arc<Mutex<Option<Instant>>>,
}

impl Stream {
    /// The start of the measured time, still in the future when the threads start.
    fn origin(&self) -> Instant {
        loop {
            if let Some(origin) = *locked(&self.begin) {
                return origin;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn send(&self) {
        let origin = self.origin();
        let mut packet = vec![0; self.probe.bytes];
        for number in 0..self.probe.count() {
            let due = origin + Duration::from_secs_f64(self.probe.due_s(number));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            packet[..NUMBER_BYTES].copy_from_slice(&(number as u64).to_le_bytes());
            // Before it is sent: on an empty path the answer is faster than this thread.
            locked(&self.datagrams)[number].sent_s = origin.elapsed().as_secs_f64();
            // A full queue next door is a loss like any other.
            let _ = self.sender.send_to(&packet, self.probe.to);
        }
    }

    fn receive(&self) {
        let mut raw = vec![0; self.probe.bytes];
        let origin = self.origin();
        while let Some((length, from)) = self.next(&self.receiver, &mut raw, origin) {
            if self.probe.echo {
                let _ = self.receiver.send_to(&raw[..length], from);
            } else {
                self.note(&raw[..length], origin);
            }
        }
    }

    fn take_back(&self) {
        let mut raw = vec![0; self.probe.bytes];
        let origin = self.origin();
        while let Some((length, _)) = self.next(&self.sender, &mut raw, origin) {
            self.note(&raw[..length], origin);
        }
    }

    /// The next datagram; `None` some seconds after the last was sent.
    fn next(
        &self,
        socket: &UdpSocket,
        raw: &mut [u8],
        origin: Instant,
    ) -> Option<(usize, SocketAddr)> {
        let until = origin + Duration::from_secs_f64(self.probe.end_s + 5.0);
        while Instant::now() < until {
            if socket.set_read_timeout(Some(PATIENCE)).is_err() {
                return None;
            }
            if let Ok(found) = socket.recv_from(raw) {
                return Some(found);
            }
        }
        None
    }

    fn note(&self, raw: &[u8], origin: Instant) {
        let number = raw.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let number = number.and_then(|number| usize::try_from(number).ok());
        let mut datagrams = locked(&self.datagrams);
        if let Some(one) = number.and_then(|number| datagrams.get_mut(number)) {
            one.seen_s.get_or_insert(origin.elapsed().as_secs_f64());
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bound(netns: Option<&Path>, address: SocketAddr) -> Result<UdpSocket> {
    netns::inside(netns, || {
        UdpSocket::bind(address).map_err(|source| Error::Listen { address, source })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(echo: bool) -> Probe {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        Probe {
            name: "voice".into(),
            netns: None,
            to: free.local_addr().unwrap(),
            to_netns: None,
            start_s: 0.01,
            end_s: 0.11,
            interval_ms: 10.0,
            bytes: 100,
            echo,
        }
    }

    fn run(probe: &Probe) -> Vec<Datagram> {
        let begin = Arc::new(Mutex::new(None));
        let running = Running::prepare(probe, &begin).unwrap();
        *locked(&begin) = Some(Instant::now());
        let deadline = Instant::now() + Duration::from_secs(20);
        let all = Arc::clone(&running.datagrams);
        while locked(&all).iter().any(|one| one.seen_s.is_none()) {
            assert!(Instant::now() < deadline, "{:?}", locked(&all));
            std::thread::sleep(Duration::from_millis(5));
        }
        running.finish().1
    }

    #[test]
    fn probe_datagrams_are_sent_on_time_and_received() {
        for echo in [false, true] {
            let found = run(&probe(echo));
            assert_eq!(found.len(), 10);
            for (number, one) in found.iter().enumerate() {
                assert!(one.sent_s >= 0.01 + 0.01 * number as f64, "{found:?}");
                assert!(one.seen_s.is_some_and(|seen_s| seen_s >= one.sent_s));
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(probe(true).check().is_ok());
        for spoil in [
            |one: &mut Probe| one.bytes = 4,
            |one: &mut Probe| one.interval_ms = 0.0,
            |one: &mut Probe| one.end_s = 0.0,
        ] {
            let mut bad = probe(false);
            spoil(&mut bad);
            assert!(matches!(bad.check(), Err(Error::Usage(_))), "{bad:?}");
        }
    }
}
