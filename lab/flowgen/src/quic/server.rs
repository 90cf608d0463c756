//! The server's side: a thread takes connections and counts the bytes of their streams.

use super::silence::{LOOK, Sign, Silence};
use super::{endpoint, runtime, silence, tls};
use crate::error::{Error, Result};
use crate::meter::ArrivalMeter;
use crate::protocol::{REQUEST_BYTES, Request};
use noq::{PathId, PathStatus, RecvStream, SendStream, TransportConfig};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Most bytes of one chunk; a packet carries fewer.
const CHUNK_BYTES: usize = 1 << 20;
/// Longest wait for a silent client.
const IDLE: Duration = Duration::from_secs(60);

/// Listens, and serves on a thread until the process ends. With more than one of `paths` a
/// connection may have several.
///
/// # Errors
/// [`Error::Listen`] when the port is taken; [`Error::Io`].
pub fn serve(listen: SocketAddr, paths: u32) -> Result<SocketAddr> {
    let failed = |source| Error::Listen {
        address: listen,
        source,
    };
    let socket = endpoint::socket(listen).map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    let mut config = tls::server()?;
    config.transport_config(Arc::new(transport(paths, listen)));
    let runtime = runtime()?;
    let endpoint = {
        let _guard = runtime.enter();
        endpoint::endpoint(socket, Some(config))?
    };
    std::thread::spawn(move || runtime.block_on(accept(endpoint, paths)));
    Ok(address)
}

fn transport(paths: u32, listen: SocketAddr) -> TransportConfig {
    endpoint::transport(paths, IDLE, listen.is_ipv4())
}

async fn accept(endpoint: noq::Endpoint, paths: u32) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            // An error on a connection ends only that one: its client sees it.
            if let Ok(connection) = incoming.await {
                tokio::select! {
                    () = take_streams(&connection) => {}
                    never = answer_on_living_paths(&connection, paths) => match never {},
                }
            }
        });
    }
}

async fn take_streams(connection: &noq::Connection) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(answer(send, receive));
    }
}

/// Moves acknowledgements away from a path gone silent, and back when packets arrive on it again. A path
/// reopened by the client has a higher number than all before.
async fn answer_on_living_paths(connection: &noq::Connection, paths: u32) -> Infallible {
    let mut silence = Silence::new(silence::SERVER);
    let mut numbers = paths;
    loop {
        sleep(LOOK).await;
        let open: Vec<_> = (0..numbers)
            .map(|id| connection.path(PathId::from(id)))
            .collect();
        let highest = open.iter().rposition(Option::is_some).unwrap_or(0);
        numbers = u32::try_from(highest).map_or(numbers, |highest| highest + 1 + paths);
        let signs: Vec<_> = open.iter().map(|path| sign(path.as_ref())).collect();
        let silent = silence.look(Instant::now(), &signs);
        for (at, path) in open.iter().enumerate() {
            let Some(path) = path else { continue };
            let wanted = if silent.contains(&at) {
                PathStatus::Backup
            } else {
                PathStatus::Available
            };
            if path.status().is_ok_and(|status| status != wanted) {
                // It may just have been closed.
                let _ = path.set_status(wanted);
            }
        }
    }
}

/// The sign of a path. A path not opened yet or already closed has nothing to wait for.
fn sign(path: Option<&noq::Path>) -> Sign {
    let Some(stats) = path.map(noq::Path::stats) else {
        return Sign::default();
    };
    Sign {
        progress: stats.udp_rx.datagrams,
        busy: true,
        rtt: stats.rtt,
    }
}

/// Counts an upload to its end, and reports the count. Anything else is refused by the stream's reset.
async fn answer(mut send: SendStream, mut receive: RecvStream) -> Option<()> {
    let mut raw = [0; REQUEST_BYTES];
    receive.read_exact(&mut raw).await.ok()?;
    if !matches!(Request::decode(&raw), Ok(Request::Upload)) {
        return send.reset(noq::VarInt::from_u32(1)).ok();
    }
    let mut meter = ArrivalMeter::default();
    while let Some(chunk) = receive.read_chunk(CHUNK_BYTES).await.ok()? {
        meter.add(chunk.len(), Instant::now());
    }
    send.write_all(&meter.report().encode()).await.ok()?;
    send.finish().ok()
}
