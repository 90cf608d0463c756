//! One bulk connection, from connect to its report.

use super::BulkOptions;
use super::frames::{FrameReader, Pull};
use super::report::ConnectionReport;
use crate::error::{Error, Result};
use crate::meter::ArrivalMeter;
use crate::net::{self, BLOCK_BYTES, ConnectOptions, Discarder, ZEROS};
use crate::protocol::{
    Limit, RECEIVER_REPORT_BYTES, REQUEST_BYTES, ReceiverReport, Request, SENDER_REPORT_BYTES,
    SenderReport,
};
use crate::tcp_info::{self, TcpInfo};
use crate::transport::Transport;
use rustix::event::PollFlags;
use rustix::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Runs one connection. An error is in the report, with the figures from before it.
pub fn run(options: &BulkOptions, index: u64) -> ConnectionReport {
    let begin = Instant::now();
    let mut report = ConnectionReport::new(index, options.to);
    if let Err(error) = attempt(options, &mut report) {
        report.error = Some(error.with_remedy());
    }
    report.elapsed_seconds = begin.elapsed().as_secs_f64();
    report
}

fn attempt(options: &BulkOptions, report: &mut ConnectionReport) -> Result<()> {
    if !options.transport.is_quic() {
        return over_tcp(options, report);
    }
    options.transport.available()?;
    if options.reverse {
        let text = "over QUIC only the client sends; leave out --reverse";
        return Err(Error::Usage(text.into()));
    }
    #[cfg(feature = "mpquic")]
    super::quic::run(options, report)?;
    Ok(())
}

fn over_tcp(options: &BulkOptions, report: &mut ConnectionReport) -> Result<()> {
    if !options.paths.is_empty() {
        let text = "--path is for mpquic; MPTCP's subflows are opened as `ip mptcp` says";
        return Err(Error::Usage(text.into()));
    }
    let choices = ConnectOptions {
        cc: options.cc.as_deref(),
        bind: options.bind,
        mptcp: options.transport == Transport::Mptcp,
        fq_paced: false,
    };
    let socket = net::connect(options.to, choices, options.wait)?;
    if let Ok(local) = net::local_address(&socket) {
        report.local = Some(local);
    }
    if options.reverse {
        download(&socket, options, report)
    } else {
        report.cc_start = Some(net::congestion_control(&socket));
        let mut sent_bytes = 0;
        let result = upload(&socket, options, report, &mut sent_bytes);
        // Also after a failure: how far it came is the interesting part.
        let info = TcpInfo::read(&socket).map_err(Error::io("reading TCP_INFO"))?;
        let cc_end = net::congestion_control(&socket);
        report.set_sender(info, cc_end);
        if options.transport == Transport::Mptcp {
            let subflows = tcp_info::subflows(&socket).unwrap_or_default();
            report.set_paths(subflows.iter().map(|(local, info)| (*local, None, info)));
        }
        if result.is_err() {
            // SYN and header were acknowledged too, and perhaps a FIN after the last byte.
            let acked_bytes = info.acked_bytes.saturating_sub(1 + REQUEST_BYTES as u64);
            report.bytes = acked_bytes.min(sent_bytes);
        }
        result
    }
}

fn upload(
    socket: &OwnedFd,
    options: &BulkOptions,
    report: &mut ConnectionReport,
    sent_bytes: &mut u64,
) -> Result<()> {
    send_payload(socket, options.limit, options.wait, sent_bytes)?;
    rustix::net::shutdown(socket, Shutdown::Write).map_err(Error::io("half-closing"))?;
    let mut raw = [0; RECEIVER_REPORT_BYTES];
    receive_exactly(
        socket,
        &mut raw,
        options.wait,
        "waiting for the receiver's report",
    )?;
    report.set_receiver(ReceiverReport::decode(&raw));
    Ok(())
}

/// Sends header and payload until the limit. A time limit is kept exactly, even when the socket
/// is full; with a byte limit, `wait` bounds each standstill. `sent_bytes` counts the payload that
/// the kernel has taken.
fn send_payload(
    socket: &OwnedFd,
    limit: Limit,
    wait: Duration,
    sent_bytes: &mut u64,
) -> Result<()> {
    let header = Request::Upload.encode();
    let mut header_left_bytes = header.len();
    let (mut left_bytes, deadline) = match limit {
        Limit::Bytes(bytes) => (bytes, None),
        Limit::Time(time) => (u64::MAX, Instant::now().checked_add(time)),
    };
    while header_left_bytes > 0 || left_bytes > 0 {
        let left_time = deadline.map_or(wait, |at| at.saturating_duration_since(Instant::now()));
        if header_left_bytes == 0 && left_time.is_zero() && deadline.is_some() {
            return Ok(());
        }
        let head = &header[header.len() - header_left_bytes..];
        let room = BLOCK_BYTES - head.len();
        let block = usize::try_from(left_bytes).unwrap_or(room).min(room);
        let offered = head.len() + block;
        let sent = net::send_pair(socket, head, &ZEROS[..block]).map_err(Error::io("sending"))?;
        let sent = sent.unwrap_or(0);
        let of_header = sent.min(header_left_bytes);
        header_left_bytes -= of_header;
        left_bytes -= (sent - of_header) as u64;
        *sent_bytes += (sent - of_header) as u64;
        let blocked = sent < offered;
        if blocked && !net::wait_for(socket, PollFlags::OUT, left_time)? && deadline.is_none() {
            return Err(Error::Timeout {
                action: "sending",
                wait,
            });
        }
    }
    Ok(())
}

fn download(socket: &OwnedFd, options: &BulkOptions, report: &mut ConnectionReport) -> Result<()> {
    let request = Request::Download(options.limit).encode();
    send_all(socket, &request, options.wait)?;
    let mut meter = ArrivalMeter::default();
    let result = receive_frames(socket, options, &mut meter);
    report.set_receiver(meter.report());
    if result.is_err() {
        report.goodput_bits_per_s = None;
    }
    result?;
    send_all(socket, &meter.report().encode(), options.wait)?;
    let mut raw = [0; SENDER_REPORT_BYTES];
    receive_exactly(
        socket,
        &mut raw,
        options.wait,
        "waiting for the sender's report",
    )?;
    let sender = SenderReport::decode(&raw);
    report.cc_start = Some(sender.cc_start);
    report.set_sender(sender.info, sender.cc_end);
    Ok(())
}

fn receive_frames(socket: &OwnedFd, options: &BulkOptions, meter: &mut ArrivalMeter) -> Result<()> {
    let action = "receiving";
    // The drain after the sender's deadline counts against `wait`, however lively it is.
    let give_up = match options.limit {
        Limit::Bytes(_) => None,
        Limit::Time(time) => Instant::now().checked_add(time.saturating_add(options.wait)),
    };
    let mut frames = FrameReader::default();
    let mut discarder = Discarder::default();
    loop {
        match frames
            .pull(socket, &mut discarder, meter)
            .map_err(Error::io(action))?
        {
            Pull::Progress => {}
            Pull::End => return Ok(()),
            Pull::Closed => return Err(Error::Closed { action }),
            Pull::Blocked => {
                let left = give_up.map_or(options.wait, |at| {
                    at.saturating_duration_since(Instant::now())
                });
                let patience = left.min(options.wait);
                if patience.is_zero() || !net::wait_for(socket, PollFlags::IN, patience)? {
                    return Err(Error::Timeout {
                        action,
                        wait: options.wait,
                    });
                }
            }
        }
    }
}

fn send_all(socket: impl AsFd, mut bytes: &[u8], wait: Duration) -> Result<()> {
    while !bytes.is_empty() {
        let sent = net::send_some(&socket, bytes).map_err(Error::io("sending"))?;
        bytes = &bytes[sent.unwrap_or(0)..];
        if sent.is_none() && !net::wait_for(&socket, PollFlags::OUT, wait)? {
            return Err(Error::Timeout {
                action: "sending",
                wait,
            });
        }
    }
    Ok(())
}

/// Fills `room` within `wait`.
fn receive_exactly(
    socket: impl AsFd,
    room: &mut [u8],
    wait: Duration,
    action: &'static str,
) -> Result<()> {
    let deadline = Instant::now() + wait;
    let mut have = 0;
    while have < room.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if !net::wait_for(&socket, PollFlags::IN, left)? {
            return Err(Error::Timeout { action, wait });
        }
        match net::receive(&socket, &mut room[have..]).map_err(Error::io(action))? {
            None => {}
            Some(0) => return Err(Error::Closed { action }),
            Some(bytes) => have += bytes,
        }
    }
    Ok(())
}
