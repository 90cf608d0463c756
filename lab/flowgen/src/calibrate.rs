//! `reflect` and `calibrate`: figures of a path before it is used: idle round-trip time, the rate
//! its bottleneck lets through, its loss, and how late this host's timers are.
//!
//! UDP datagrams begin with a kind and a number: `P` is returned at once, `D` is counted, `Z`
//! empties the counters, `R` is answered by them.

use crate::error::{Error, Result};
use crate::net::set_option;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const PING: u8 = b'P';
const DATA: u8 = b'D';
const ZERO: u8 = b'Z';
const READ: u8 = b'R';
/// Bytes of an IP packet of the rate probe: a full Ethernet frame.
const FULL_PACKET_BYTES: usize = 1500;
/// Bytes counted by tc in addition to IP's: the Ethernet header.
const ETHERNET_BYTES: usize = 14;
const RECEIVE_BYTES: libc::c_int = 16 << 20;
const SMALL_BYTES: usize = 64;
const SETTLING: Duration = Duration::from_millis(300);
/// At shorter intervals one call sends several packets.
const MANY_BELOW: Duration = Duration::from_micros(40);
/// Most bytes sent by one call.
const MOST_BYTES: usize = 60_000;
const TICK: Duration = Duration::from_millis(1);
const LATENESS_SAMPLES: usize = 100;

/// IP's and UDP's headers.
fn headers_bytes(peer: IpAddr) -> usize {
    const UDP_BYTES: usize = 8;
    match peer.to_canonical() {
        IpAddr::V4(_) => 20 + UDP_BYTES,
        IpAddr::V6(_) => 40 + UDP_BYTES,
    }
}

/// Answers probes until the process is ended.
///
/// # Errors
/// [`Error::Listen`], [`Error::Io`].
pub fn reflect(listen: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(listen).map_err(|source| Error::Listen {
        address: listen,
        source,
    })?;
    // A queue before this program is no part of the path; without the right to so much it is shorter.
    set_receive_buffer(&socket, RECEIVE_BYTES);
    println!("listening {listen}");
    let mut counters: HashMap<IpAddr, Counters> = HashMap::new();
    let mut raw = [0; 2048];
    loop {
        let (length, from) = socket
            .recv_from(&mut raw)
            .map_err(Error::io("receiving a probe"))?;
        let known = counters.entry(from.ip()).or_default();
        let answer = match raw[0] {
            PING => raw[..length].to_vec(),
            DATA => {
                known.count(length + headers_bytes(from.ip()), Instant::now());
                continue;
            }
            ZERO => {
                *known = Counters::default();
                raw[..length].to_vec()
            }
            READ => known.encode(raw.get(1..5).unwrap_or_default()),
            _ => continue,
        };
        // A lost answer is asked for again.
        let _ = socket.send_to(&answer, from);
    }
}

fn set_receive_buffer(socket: &UdpSocket, bytes: libc::c_int) {
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes);
}

#[derive(Debug, Default)]
struct Counters {
    packets: u64,
    bytes_after_first: u64,
    first_and_last: Option<(Instant, Instant)>,
}

impl Counters {
    fn count(&mut self, packet_bytes: usize, now: Instant) {
        self.packets += 1;
        match &mut self.first_and_last {
            None => self.first_and_last = Some((now, now)),
            Some((_, last)) => {
                *last = now;
                self.bytes_after_first += (packet_bytes + ETHERNET_BYTES) as u64;
            }
        }
    }

    fn encode(&self, number: &[u8]) -> Vec<u8> {
        let took = self.first_and_last.map_or(0, |(first, last)| {
            u64::try_from((last - first).as_nanos()).unwrap_or(u64::MAX)
        });
        let mut out = vec![READ];
        out.extend_from_slice(number);
        for value in [self.packets, self.bytes_after_first, took] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out
    }
}

/// Options of `calibrate`.
#[derive(Debug, Clone, Copy)]
pub struct CalibrateOptions {
    /// Address of `reflect`.
    pub to: SocketAddr,
    /// Pings for the idle round trip.
    pub pings: u32,
    /// Rate to send at, above the path's own; `None` leaves the rate out.
    pub rate_mbit: Option<f64>,
    /// How long.
    pub rate_seconds: f64,
    /// Small packets sent to count losses.
    pub loss_packets: u32,
    /// Loss packets per second.
    pub loss_packets_per_s: f64,
}

/// The result, as printed. A value is absent if it was not wanted, or if nothing came back.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CalibrateReport {
    /// Median of the pings.
    pub idle_rtt_ms: Option<f64>,
    /// Least of them.
    pub idle_rtt_ms_min: Option<f64>,
    /// Pings answered.
    pub pings: usize,
    /// Rate at the receiver, with Ethernet headers, as tc counts.
    pub udp_rate_mbit: Option<f64>,
    /// Small packets sent.
    pub loss_packets_sent: u32,
    /// Loss packets not received.
    pub loss_packets_lost: u32,
    /// How late a sleep of 1 ms returns: the 99th percentile of 100.
    pub timer_late_ms_p99: f64,
}

/// Measures.
///
/// # Errors
/// [`Error::Io`] for the socket, [`Error::Timeout`] when the other side never answers.
pub fn run(options: &CalibrateOptions) -> Result<CalibrateReport> {
    let any: IpAddr = if options.to.is_ipv4() {
        [0; 4].into()
    } else {
        [0u16; 8].into()
    };
    let socket = UdpSocket::bind((any, 0)).map_err(Error::io("opening a socket"))?;
    let mut probe = Probe {
        socket,
        to: options.to,
        number: 0,
    };
    let mut report = CalibrateReport {
        timer_late_ms_p99: timer_lateness_ms(),
        ..CalibrateReport::default()
    };
    probe.ask(ZERO)?;
    probe.round_trips(options.pings, &mut report)?;
    if options.loss_packets > 0 {
        probe.ask(ZERO)?;
        let interval = Duration::from_secs_f64(1.0 / options.loss_packets_per_s.max(1.0));
        probe.send_data(u64::from(options.loss_packets), SMALL_BYTES, interval)?;
        // On a path with jitter a question overtakes packets sent before it.
        std::thread::sleep(SETTLING);
        let received = probe.ask(READ)?.packets;
        report.loss_packets_sent = options.loss_packets;
        let lost = u64::from(options.loss_packets).saturating_sub(received);
        report.loss_packets_lost = u32::try_from(lost).unwrap_or(u32::MAX);
    }
    if let Some(rate_mbit) = options.rate_mbit {
        probe.ask(ZERO)?;
        let wire_bits = ((FULL_PACKET_BYTES + ETHERNET_BYTES) * 8) as f64;
        let per_s = rate_mbit * 1e6 / wire_bits;
        let packets = (per_s * options.rate_seconds).ceil().max(50.0) as u64;
        let interval = Duration::from_secs_f64(1.0 / per_s);
        let length = FULL_PACKET_BYTES - headers_bytes(options.to.ip());
        probe.send_data(packets, length, interval)?;
        let seen = probe.ask(READ)?;
        if seen.took_ns > 0 {
            report.udp_rate_mbit = Some(seen.bytes_after_first as f64 * 8e3 / seen.took_ns as f64);
        }
    }
    Ok(report)
}

#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    bytes_after_first: u64,
    took_ns: u64,
}

/// Its socket is not connected: the other side may have many addresses, and answers from one.
struct Probe {
    socket: UdpSocket,
    to: SocketAddr,
    number: u32,
}

impl Probe {
    fn send(&mut self, kind: u8, length: usize) -> Result<u32> {
        self.number += 1;
        let mut packet = vec![0; length.max(5)];
        packet[0] = kind;
        packet[1..5].copy_from_slice(&self.number.to_le_bytes());
        match self.socket.send_to(&packet, self.to) {
            Ok(_) => Ok(self.number),
            // A full queue next door is a loss like any other.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(self.number),
            Err(error) => Err(Error::io("sending a probe")(error)),
        }
    }

    /// Sends full packets, many by one call: the kernel takes them apart (udp(7), `UDP_SEGMENT`). By single calls a
    /// processor reaches less than a gigabit.
    fn send_many(&mut self, packets: u64, length: usize) -> Result<()> {
        let mut data = vec![0; packets as usize * length];
        for packet in data.chunks_exact_mut(length) {
            self.number += 1;
            packet[0] = DATA;
            packet[1..5].copy_from_slice(&self.number.to_le_bytes());
        }
        self.segment(length)?;
        let sent = self.socket.send_to(&data, self.to);
        self.segment(0)?;
        match sent {
            Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => {
                Err(Error::io("sending probes")(error))
            }
            _ => Ok(()),
        }
    }

    /// Length of the datagrams made from the bytes of one send; 0: one datagram.
    fn segment(&self, length: usize) -> Result<()> {
        let bytes = length as libc::c_int;
        set_option(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes)
            .map_err(Error::io("sending many at once"))
    }

    fn send_data(&mut self, packets: u64, length: usize, interval: Duration) -> Result<()> {
        let begin = Instant::now();
        let mut sent: u64 = 0;
        while sent < packets {
            let due = (begin.elapsed().as_secs_f64() / interval.as_secs_f64()) as u64 + 1;
            while sent < due.min(packets) {
                let many = (due.min(packets) - sent).min((MOST_BYTES / length) as u64);
                if interval > MANY_BELOW {
                    self.send(DATA, length)?;
                    sent += 1;
                } else {
                    self.send_many(many, length)?;
                    sent += many;
                }
            }
            std::thread::sleep(TICK.max(interval));
        }
        Ok(())
    }

    /// Asks until there is an answer: the packets sent before have then passed the queue.
    fn ask(&mut self, kind: u8) -> Result<Seen> {
        let wait = Duration::from_secs(1);
        let tries = 30;
        let mut raw = [0; 256];
        let oldest = self.number + 1;
        for _ in 0..tries {
            self.send(kind, SMALL_BYTES)?;
            let until = Instant::now() + wait;
            while let Some(length) = self.receive(&mut raw, until)? {
                let number = u32_at(&raw, 1);
                if length >= 5 && raw[0] == kind && number >= oldest {
                    return Ok(Seen {
                        packets: u64_at(&raw, 5),
                        bytes_after_first: u64_at(&raw, 13),
                        took_ns: u64_at(&raw, 21),
                    });
                }
            }
        }
        Err(Error::Timeout {
            action: "calibrating: the other side does not answer",
            wait: wait * tries,
        })
    }

    fn receive(&self, raw: &mut [u8], until: Instant) -> Result<Option<usize>> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        self.socket
            .set_read_timeout(Some(left))
            .map_err(Error::io("setting a time-out"))?;
        match self.socket.recv_from(raw) {
            Ok((length, _)) => Ok(Some(length)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Error::io("receiving a probe")(error)),
        }
    }

    fn round_trips(&mut self, pings: u32, report: &mut CalibrateReport) -> Result<()> {
        let mut times_ms = Vec::new();
        let mut raw = [0; 256];
        for _ in 0..pings {
            let begin = Instant::now();
            let number = self.send(PING, SMALL_BYTES)?;
            let until = begin + Duration::from_secs(1);
            while let Some(length) = self.receive(&mut raw, until)? {
                if length >= 5 && raw[0] == PING && u32_at(&raw, 1) == number {
                    times_ms.push(begin.elapsed().as_secs_f64() * 1e3);
                    break;
                }
            }
        }
        times_ms.sort_by(f64::total_cmp);
        report.pings = times_ms.len();
        report.idle_rtt_ms = times_ms.get(times_ms.len() / 2).copied();
        report.idle_rtt_ms_min = times_ms.first().copied();
        Ok(())
    }
}

fn timer_lateness_ms() -> f64 {
    let mut late_ms: Vec<f64> = (0..LATENESS_SAMPLES)
        .map(|_| {
            let begin = Instant::now();
            std::thread::sleep(TICK);
            (begin.elapsed().saturating_sub(TICK)).as_secs_f64() * 1e3
        })
        .collect();
    late_ms.sort_by(f64::total_cmp);
    late_ms[LATENESS_SAMPLES * 99 / 100 - 1]
}

fn u32_at(raw: &[u8], offset: usize) -> u32 {
    raw.get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

fn u64_at(raw: &[u8], offset: usize) -> u64 {
    raw.get(offset..offset + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_fills_packet_in_both_ip_versions() {
        let bytes = |peer: &str| headers_bytes(peer.parse().unwrap());
        assert_eq!([bytes("10.0.0.1"), bytes("2001:db8::1")], [28, 48]);
        // As a listener for both sees version 4.
        assert_eq!(bytes("::ffff:10.0.0.1"), 28);
    }
}
