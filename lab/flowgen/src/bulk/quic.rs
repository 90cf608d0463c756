//! One bulk connection over QUIC.

use super::BulkOptions;
use super::report::ConnectionReport;
use crate::error::Result;
use crate::protocol::REQUEST_BYTES;
use crate::quic::{self, Control, PathState, Seat, Session, Wish};
use crate::tcp_info::TcpInfo;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The congestion control of a connection that names none.
const CONTROL: &str = "cubic";

/// Runs one connection on a runtime of its own, and fills in its report.
pub fn run(options: &BulkOptions, report: &mut ConnectionReport) -> Result<()> {
    let name = options.cc.as_deref().unwrap_or(CONTROL);
    let wish = Wish {
        to: options.to,
        bind: options.bind,
        control: Control::from_name(name)?,
        transport: options.transport,
        no_spin: false,
        paths: options.paths.clone(),
        wait: options.wait,
    };
    let seat = Seat::take(&wish)?;
    quic::runtime()?.block_on(async {
        let session = Session::connect(wish, seat).await?;
        report.cc_start = Some(name.to_owned());
        let sent_bytes = AtomicU64::new(0);
        let result = session.carry(options.limit, &sent_bytes).await;
        let paths = session.paths();
        note_paths(report, &paths, session.local_port(), name);
        match &result {
            Ok(seen) => report.set_receiver(*seen),
            // How far it came is the interesting part.
            Err(_) => {
                let acked_bytes: u64 = paths.iter().map(|path| path.info.acked_bytes).sum();
                let payload_bytes = acked_bytes.saturating_sub(REQUEST_BYTES as u64);
                report.bytes = payload_bytes.min(sent_bytes.load(Ordering::Relaxed));
            }
        }
        session.close().await;
        result.map(|_| ())
    })
}

/// The whole connection has the first path's times, and the sums of the packets.
fn note_paths(report: &mut ConnectionReport, paths: &[PathState], port: u16, name: &str) {
    if let Some(first) = paths.first() {
        report.local = Some(SocketAddr::new(first.local, port));
        let whole = TcpInfo {
            retransmits: paths.iter().map(|path| path.info.retransmits).sum(),
            ..first.info
        };
        report.set_sender(whole, name.to_owned());
    }
    report.set_paths(
        paths
            .iter()
            .map(|path| (path.local, Some(path.remote.ip()), &path.info)),
    );
}
