//! Checks that a registered algorithm carries data, by one connection over loopback.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    time::Duration,
};

use crate::{Error, socket};

/// Enough for slow start, and for a few of every kind of callback.
const BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a megabyte over loopback with this algorithm, and compares the data that arrive.
///
/// # Errors
/// [`Error::CcVerify`].
pub fn verify(name: &str) -> Result<(), Error> {
    transfer(name).map_err(|source| Error::CcVerify {
        name: name.to_owned(),
        source,
    })
}

fn transfer(name: &str) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    socket::set_algorithm(sender.as_raw_fd(), name)?;
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
    Ok(())
}
