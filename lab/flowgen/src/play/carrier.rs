//! A connection of a run, whatever carries it: the kernel's TCP or MPTCP, or QUIC in this program.

use super::fetch::Fetch;
use super::flow::{After, Flow};
use super::plan::{Group, Source, Work};
#[cfg(feature = "mpquic")]
use super::quic_flow::QuicFlow;
use super::record::FlowRow;
use crate::error::Result;
use crate::net::Discarder;
use crate::tcp_info::TcpInfo;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// A connection under way.
#[derive(Debug)]
pub enum Carrier {
    /// A socket of the kernel.
    Tcp(Flow),
    /// A download of a program.
    Fetch(Fetch),
    /// A connection of the thread in the background.
    #[cfg(feature = "mpquic")]
    Quic(QuicFlow),
}

/// The same expression for either content.
macro_rules! inside {
    ($carrier:expr, $flow:ident => $work:expr) => {
        match $carrier {
            Carrier::Tcp($flow) => $work,
            Carrier::Fetch($flow) => $work,
            #[cfg(feature = "mpquic")]
            Carrier::Quic($flow) => $work,
        }
    };
}

impl Carrier {
    /// Starts connecting.
    ///
    /// # Errors
    /// When it cannot even begin.
    pub fn start(group: &Group, row: FlowRow, now_s: f64) -> Result<Self> {
        #[cfg(feature = "mpquic")]
        if group.transport.is_quic() {
            return QuicFlow::start(group, row, now_s).map(Self::Quic);
        }
        if group.fetch {
            return Fetch::start(group.bind, row).map(Self::Fetch);
        }
        Flow::start(group, row, now_s).map(Self::Tcp)
    }

    /// Readable, or writable, when there is something to do.
    pub fn socket(&self) -> BorrowedFd<'_> {
        inside!(self, flow => flow.socket())
    }

    /// Goes on as far as it can without waiting.
    ///
    /// # Errors
    /// The error that ended the connection early.
    pub fn advance(&mut self, work: &Work, now_s: f64, discarder: &mut Discarder) -> Result<After> {
        match self {
            Self::Tcp(flow) => flow.advance(work, now_s, discarder),
            Self::Fetch(fetch) => fetch.advance(now_s),
            #[cfg(feature = "mpquic")]
            Self::Quic(flow) => flow.advance(work, now_s),
        }
    }

    /// The row of an exchange that has just been completed. Only TCP has any.
    pub fn exchanged(&mut self, work: &Work, now_s: f64) -> FlowRow {
        match self {
            Self::Tcp(flow) => flow.exchanged(work, now_s),
            Self::Fetch(fetch) => fetch.row.clone(),
            #[cfg(feature = "mpquic")]
            Self::Quic(flow) => flow.row.clone(),
        }
    }

    /// Lets the application hand over its data of this tick. Only TCP has such a source.
    pub fn grant(&mut self, source: &Source, tick: u64) {
        match self {
            Self::Tcp(flow) => flow.grant(source, tick),
            Self::Fetch(_) => {}
            #[cfg(feature = "mpquic")]
            Self::Quic(_) => {}
        }
    }

    /// Starts the next exchange after its pause.
    pub fn next_exchange(&mut self, work: &Work, flow: u64, now_s: f64) {
        match self {
            Self::Tcp(tcp) => tcp.next_exchange(work, flow, now_s),
            Self::Fetch(_) => {}
            #[cfg(feature = "mpquic")]
            Self::Quic(_) => {}
        }
    }

    /// Ends the sending of a timed connection: bytes acknowledged by now count.
    ///
    /// # Errors
    /// [`Error::NotEstablished`](crate::error::Error::NotEstablished) for one that is still connecting.
    pub fn cut(&mut self, now_s: f64) -> Result<After> {
        inside!(self, flow => flow.cut(now_s))
    }

    /// Fills in how far it came, when the run is over before the connection.
    pub fn abandon(&mut self, now_s: f64) {
        inside!(self, flow => flow.abandon(now_s));
    }

    /// Whether a row is still owed when the run ends.
    pub fn owes_row(&self) -> bool {
        match self {
            Self::Tcp(flow) => flow.owes_row(),
            Self::Fetch(_) => true,
            #[cfg(feature = "mpquic")]
            Self::Quic(_) => true,
        }
    }

    /// Notes counters and the congestion control at the end.
    pub fn note_end(&mut self, now_s: f64) {
        inside!(self, flow => flow.note_end(now_s));
    }

    /// Visits the subflows, or paths, each with its local address; without an address if there is only one.
    pub fn each_subflow(&self, visit: impl FnMut(Option<IpAddr>, &TcpInfo)) {
        inside!(self, flow => flow.each_subflow(visit));
    }

    /// Whether it is established, so that there is something to sample.
    pub fn is_established(&self) -> bool {
        inside!(self, flow => flow.is_established())
    }

    /// Congestion control in use now.
    pub fn congestion_control(&self) -> String {
        inside!(self, flow => flow.congestion_control())
    }

    /// The row of the report.
    pub fn row(&self) -> &FlowRow {
        inside!(self, flow => &flow.row)
    }

    /// The same at the end.
    pub fn into_row(self, error: Option<String>) -> FlowRow {
        let mut row = inside!(self, flow => flow.row.clone());
        row.error = error.or(row.error);
        row
    }
}
