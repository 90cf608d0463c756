//! Measures the steered share of this host's bytes: bytes sent by steered connections, over all bytes sent
//! and received by the devices.
//!
//! Adding up open connections takes a walk through the kernel's sockets in each network namespace. A thread
//! of its own does the walk, so nobody waits for it.

use std::{
    fs,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use tcpilot_kernel::Tally;
use tcpilot_kernel::clock::processor_time;

use crate::figures::TrafficView;

/// Interval between looks, unless a look takes long.
const EVERY: Duration = Duration::from_secs(10);
/// The next look waits for at least this many times the processor time of the last one.
const REST: u32 = 100;

/// Counts of bytes at one moment, and their devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    sent: u64,
    received: u64,
    steered: u64,
    devices: Vec<String>,
}

/// The daemon's side of the thread.
pub(super) struct Traffic {
    /// Asks for a look, with the bytes of ended steered connections.
    ask: Sender<u64>,
    /// The sums, and the processor time used.
    answers: Receiver<(Option<Sums>, Duration)>,
    /// When to ask next; `None` while an answer is on its way.
    due: Option<Instant>,
    first: Option<Sums>,
    last: Sums,
}

impl Traffic {
    /// Starts the thread. It ends when this value is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn begin(tally: Tally) -> std::io::Result<Traffic> {
        Traffic::of(move |ended| {
            let (sent, received, devices) = device_bytes();
            let open = tally.open_bytes();
            let open =
                open.inspect_err(|error| tracing::debug!(%error, "connections were not added up"));
            Some(Sums {
                sent,
                received,
                steered: ended + open.ok()?,
                devices,
            })
        })
    }

    fn of(look: impl Fn(u64) -> Option<Sums> + Send + 'static) -> std::io::Result<Traffic> {
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        let work = move || {
            while let Ok(ended) = asked.recv() {
                let begun = processor_time();
                let sums = look(ended);
                let took = processor_time().saturating_sub(begun);
                if answer.send((sums, took)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(work)?;
        Ok(Traffic {
            ask,
            answers,
            due: Some(Instant::now()),
            first: None,
            last: Sums::default(),
        })
    }

    /// Takes the waiting answers, and asks again if it is time. `ended`: the bytes of ended steered
    /// connections.
    pub(super) fn look(&mut self, ended: u64) {
        for (sums, took) in self.answers.try_iter() {
            self.due = Some(Instant::now() + EVERY.max(took * REST));
            if let Some(sums) = sums {
                self.first.get_or_insert_with(|| sums.clone());
                self.last = sums;
            }
        }
        if self.due.is_some_and(|due| Instant::now() >= due) {
            self.due = None;
            let _ = self.ask.send(ended); // without the thread there are no figures
        }
    }

    /// The bytes since the first look; `None` before the second.
    pub(super) fn view(&self) -> Option<TrafficView> {
        let first = self.first.as_ref().filter(|first| **first != self.last)?;
        let since = |now: u64, then: u64| now.saturating_sub(then);
        Some(traffic_view(
            since(self.last.steered, first.steered),
            since(self.last.sent, first.sent),
            since(self.last.received, first.received),
            self.last.devices.clone(),
        ))
    }
}

/// The traffic of a time, in bytes.
pub fn traffic_view(steered: u64, sent: u64, received: u64, devices: Vec<String>) -> TrafficView {
    let all = sent + received;
    // Else some of it bypasses these devices: it stays on this host, or leaves by none of its cards.
    let is_part = all > 0 && steered <= sent;
    TrafficView {
        share: is_part.then(|| steered as f64 / all as f64),
        steered_bytes: steered,
        sent_bytes: sent,
        received_bytes: received,
        devices,
    }
}

/// Bytes sent and received by the devices of this thread's namespace, and their names.
pub fn device_bytes() -> (u64, u64, Vec<String>) {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    devices(&text, is_hardware)
}

fn is_hardware(name: &str) -> bool {
    Path::new("/sys/class/net")
        .join(name)
        .join("device")
        .exists()
}

/// Bytes sent and received by devices, and the names of the devices, from the text of /proc/net/dev. Only
/// hardware devices count, because packets of a bridge, a tunnel or a VLAN pass a hardware device too. If
/// there is no hardware device, as in a container, all but the loopback count. Devices without traffic are
/// left out.
fn devices(text: &str, is_hardware: impl Fn(&str) -> bool) -> (u64, u64, Vec<String>) {
    let counted: Vec<(&str, u64, u64)> = text.lines().filter_map(device).collect();
    let has_hardware = counted.iter().any(|(name, ..)| is_hardware(name));
    let (mut sent, mut received, mut names) = (0, 0, Vec::new());
    for (name, tx_bytes, rx_bytes) in counted {
        // A kernel with tunnel drivers has an idle device of each kind in every namespace.
        let is_used = tx_bytes + rx_bytes > 0;
        if name != "lo" && is_used && (!has_hardware || is_hardware(name)) {
            sent += tx_bytes;
            received += rx_bytes;
            names.push(name.to_owned());
        }
    }
    names.sort();
    (sent, received, names)
}

/// Name, bytes sent, bytes received, proc(5): the first and the ninth number after the name.
fn device(line: &str) -> Option<(&str, u64, u64)> {
    let (name, numbers) = line.split_once(':')?;
    let mut numbers = numbers.split_whitespace().map(str::parse);
    let received = numbers.next()?.ok()?;
    let sent = numbers.nth(7)?.ok()?;
    Some((name.trim(), sent, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9000000      10    0    0    0     0          0         0  9000000      10    0    0    0     0       0          0
   br0:     200       2    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  gre0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth1:       3       1    0    0    0     0          0         0        7       1    0    0    0     0       0          0
  eth0:      20       1    0    0    0     0          0         0     1000       1    0    0    0     0       0          0
";

    #[test]
    fn bridged_traffic_counts_once() {
        let named = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let hardware = |name: &str| name.starts_with("eth");
        assert_eq!(
            devices(TEXT, hardware),
            (1007, 23, named(&["eth0", "eth1"]))
        );
        let all = named(&["br0", "eth0", "eth1"]);
        assert_eq!(devices(TEXT, |_| false), (1107, 223, all));
        assert_eq!(devices("", |_| true), (0, 0, Vec::new()));
    }

    fn looked(sums: Vec<Sums>) -> Option<TrafficView> {
        let count = sums.len();
        let sums = std::sync::Mutex::new(sums.into_iter());
        let mut traffic = Traffic::of(move |_| sums.lock().unwrap().next()).unwrap();
        for _ in 0..count {
            traffic.due = Some(Instant::now());
            traffic.look(0);
            while traffic.due.is_none() {
                std::thread::yield_now();
                traffic.look(0);
            }
        }
        traffic.view()
    }

    fn sums(sent: u64, received: u64, steered: u64) -> Sums {
        Sums {
            sent,
            received,
            steered,
            devices: Vec::new(),
        }
    }

    #[test]
    fn shares_count_device_bytes_since_first_look() {
        assert_eq!(looked(vec![sums(1000, 500, 400)]), None);
        let view = looked(vec![sums(1000, 500, 400), sums(1600, 900, 900)]).unwrap();
        assert_eq!(
            (view.sent_bytes, view.received_bytes, view.steered_bytes),
            (600, 400, 500)
        );
        assert_eq!(view.share, Some(0.5));
        let inside = looked(vec![sums(0, 0, 0), sums(10, 0, 900)]).unwrap();
        assert_eq!(inside.share, None, "between containers of this host");
        let idle = looked(vec![sums(0, 0, 0), sums(0, 0, 900)]).unwrap();
        assert_eq!(idle.share, None);
    }
}
