//! A connection of requests and responses: each exchange has a row of its own.

use super::super::plan::Work;
use super::super::record::FlowRow;
use super::{After, Flow, State};
use crate::error::{Error, Result};
use crate::net::{self, Discarder, ZEROS};
use crate::tcp_info::TcpInfo;

/// Bytes of a request's first write, if the rest comes in a second.
const HEADER_BYTES: u64 = 100;

impl Flow {
    /// Sends the rest of a request, or reads the rest of its response, as far as the socket lets it.
    pub(super) fn exchange(
        &mut self,
        work: &Work,
        now_s: f64,
        discarder: &mut Discarder,
    ) -> Result<Option<After>> {
        let Work::Exchange {
            request_bytes,
            response_bytes,
            header_apart,
            ..
        } = work
        else {
            return Ok(None);
        };
        loop {
            let State::Exchanging { reading, left } = &mut self.state else {
                return Ok(None);
            };
            if *reading {
                match discarder
                    .discard(&self.socket, *left)
                    .map_err(Error::io("receiving"))?
                {
                    None => return Ok(None),
                    Some(0) => {
                        return Err(Error::Closed {
                            action: "receiving",
                        });
                    }
                    Some(bytes) => *left -= bytes as u64,
                }
                if *left == 0 {
                    self.row.fct_s = Some(now_s - self.exchange_started_s);
                    self.state = State::Thinking;
                    return Ok(Some(After::Exchanged));
                }
                continue;
            }
            let head = &self.head[self.head_sent..];
            let head_left = head.len();
            let header_only = *header_apart && *left == *request_bytes;
            let wanted = if header_only {
                HEADER_BYTES.min(*left)
            } else {
                *left
            };
            let block = usize::try_from(wanted)
                .unwrap_or(usize::MAX)
                .min(ZEROS.len());
            match net::send_pair(&self.socket, head, &ZEROS[..block])
                .map_err(Error::io("sending"))?
            {
                None => return Ok(None),
                Some(sent) => {
                    self.head_sent += sent.min(head_left);
                    *left -= sent.saturating_sub(head_left) as u64;
                }
            }
            if *left == 0 {
                *reading = true;
                *left = *response_bytes;
            }
        }
    }

    /// The row of the exchange that has just been completed; the next has a row of its own.
    pub fn exchanged(&mut self, work: &Work, now_s: f64) -> FlowRow {
        let mut row = self.row.clone();
        if let Work::Exchange {
            request_bytes,
            response_bytes,
            ..
        } = work
        {
            row.bytes = request_bytes + response_bytes;
        }
        row.start_s = self.exchange_started_s;
        row.end_s = Some(now_s);
        row.cc_used = net::congestion_control(&self.socket);
        if let Ok(info) = TcpInfo::read(&self.socket) {
            row.set_info(&info);
        }
        row.times = None; // those are of all exchanges together
        row
    }

    /// Starts the next exchange after its pause.
    pub fn next_exchange(&mut self, work: &Work, flow: u64, now_s: f64) {
        if let (State::Thinking, Work::Exchange { request_bytes, .. }) = (&self.state, work) {
            self.row.flow = flow;
            self.exchange_started_s = now_s;
            self.state = State::Exchanging {
                reading: false,
                left: *request_bytes,
            };
        }
    }
}
