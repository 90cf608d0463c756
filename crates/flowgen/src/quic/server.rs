//! The server's side: a thread that takes connections and counts what is uploaded on their streams.

use super::{endpoint, runtime, tls};
use crate::error::{Error, Result};
use crate::meter::ArrivalMeter;
use crate::protocol::{REQUEST_BYTES, Request};
use noq::{RecvStream, SendStream, TransportConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of one chunk; a packet carries fewer.
const CHUNK_BYTES: usize = 1 << 20;
/// A client that is gone without a word.
const IDLE: Duration = Duration::from_secs(60);

/// Listens, and serves on a thread that lives as long as the process. With more than one of `paths` a
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
    std::thread::spawn(move || runtime.block_on(accept(endpoint)));
    Ok(address)
}

fn transport(paths: u32, listen: SocketAddr) -> TransportConfig {
    endpoint::transport(paths, IDLE, listen.is_ipv4())
}

async fn accept(endpoint: noq::Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            // What goes wrong on a connection ends only that one: its client sees it.
            if let Ok(connection) = incoming.await {
                while let Ok((send, receive)) = connection.accept_bi().await {
                    tokio::spawn(answer(send, receive));
                }
            }
        });
    }
}

/// Counts an upload to its end, and says what has come. Anything else is refused by the stream's reset.
async fn answer(mut send: SendStream, mut receive: RecvStream) -> Option<()> {
    let mut raw = [0; REQUEST_BYTES];
    receive.read_exact(&mut raw).await.ok()?;
    if !matches!(Request::decode(&raw), Ok(Request::Upload)) {
        return send.reset(noq::VarInt::from_u32(1)).ok();
    }
    let mut meter = ArrivalMeter::default();
    let mut receive = receive.into_unordered();
    while let Some(chunk) = receive.read_chunk(CHUNK_BYTES).await.ok()? {
        meter.add(chunk.bytes.len(), Instant::now());
    }
    send.write_all(&meter.report().encode()).await.ok()?;
    send.finish().ok()
}
