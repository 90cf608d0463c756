//! UDP sockets and transport parameters of both ends.

use crate::error::{Error, Result};
use noq::{EndpointConfig, MtuDiscoveryConfig, TokioRuntime, TransportConfig, VarInt};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// The wanted buffer; `net.core.rmem_max` bounds it. A window of 100 Mbit/s times 300 ms.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Flow control must not limit an experiment on congestion control.
const STREAM_WINDOW_BYTES: u32 = 256 << 20;
/// Ethernet's 1500 bytes without the headers of IPv4, or IPv6, and UDP.
const PAYLOAD_V4: u16 = 1472;
const PAYLOAD_V6: u16 = 1452;

/// The limits of both ends. `paths` 0 or 1: no multipath. A connection on which nothing comes for `idle` ends.
pub fn transport(paths: u32, idle: Duration, v4: bool) -> TransportConfig {
    let mut probes = MtuDiscoveryConfig::default();
    probes.upper_bound(if v4 { PAYLOAD_V4 } else { PAYLOAD_V6 });
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .mtu_discovery_config(Some(probes))
        .max_concurrent_multipath_paths(if paths > 1 { paths } else { 0 })
        // Too long for a variable-length integer of milliseconds: never.
        .max_idle_timeout(idle.try_into().ok());
    transport
}

/// Opens a socket; on `[::]` it takes IPv4 too.
///
/// # Errors
/// That of the kernel.
pub fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if let IpAddr::V6(ip) = address.ip() {
        sockopt::set_ipv6_v6only(&socket, !ip.is_unspecified())?;
    }
    sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
    sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
    rustix::net::bind(&socket, &address)?;
    Ok(UdpSocket::from(socket))
}

/// An endpoint on this socket. Must be called within a runtime.
///
/// # Errors
/// [`Error::Io`].
pub fn endpoint(socket: UdpSocket, server: Option<noq::ServerConfig>) -> Result<noq::Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    noq::Endpoint::new(EndpointConfig::default(), server, socket, runtime)
        .map_err(Error::io("opening an endpoint of QUIC"))
}

/// Any address of the same family.
pub fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The address that the kernel sends from on the way to `to`; with `bind`, whether it may be that one.
/// Nothing is sent.
///
/// # Errors
/// Without a route, or when `bind` is no address of this host.
pub fn source(to: SocketAddr, bind: Option<IpAddr>) -> io::Result<IpAddr> {
    let probe = UdpSocket::bind((bind.unwrap_or(any(to.ip())), 0))?;
    probe.connect(to)?;
    Ok(probe.local_addr()?.ip())
}
