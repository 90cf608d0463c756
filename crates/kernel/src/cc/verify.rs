//! Checks whether a registered algorithm carries data, by one connection over loopback.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::Error;

/// Enough for slow start, and for a few of every kind of callback.
const BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a megabyte over loopback with this algorithm, and compares the received data.
///
/// # Errors
/// [`Error::CcVerify`].
pub fn verify(name: &str) -> Result<(), Error> {
    transfer(name).map_err(|source| Error::CcVerify {
        name: name.to_owned(),
        source,
    })
}

fn connect_with(name: &str, to: SocketAddr) -> io::Result<TcpStream> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_congestion(&socket, name)?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

fn transfer(name: &str) -> io::Result<()> {
    // At both ends, and before they connect: Linux refuses ECN to an algorithm that needs it if the listener
    // has another one, and such an algorithm leaves the connection to reno then.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    sockopt::set_tcp_congestion(&listener, name)?;
    let mut sender = connect_with(name, listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    sender.set_write_timeout(Some(PATIENCE))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sent: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    let received = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut received = Vec::with_capacity(BYTES);
            receiver.read_to_end(&mut received).map(|_| received)
        });
        sender.write_all(&sent)?;
        sender.shutdown(std::net::Shutdown::Write)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })?;
    if received != sent {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "other bytes arrived than were sent",
        ));
    }
    let used = sockopt::tcp_congestion(&sender)?;
    if used != name {
        let left = format!("it left the connection to {used}: was ECN refused?");
        return Err(io::Error::other(left));
    }
    Ok(())
}
