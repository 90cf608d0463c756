//! `capture`: the packets of a device as a pcap file, for hosts without tcpdump.
//!
//! The format is the libpcap project's with nanoseconds (draft-ietf-opsawg-pcap). Times are
//! the kernel's, of the packet's arrival at the device.

use crate::error::{Error, Result};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_ETHERNET: u32 = 1;
const MOST_BYTES: usize = 65_536;
/// `SIOCGSTAMPNS_OLD` (include/uapi/asm-generic/sockios.h): when the packet read last arrived.
const GET_ARRIVAL: libc::c_ulong = 0x8907;

static STOP: AtomicBool = AtomicBool::new(false);

/// Writes packets until SIGINT or SIGTERM; says how many.
///
/// # Errors
/// [`Error::Usage`] for an unknown device, [`Error::Io`].
pub fn run(device: &str, out: &Path, snap_bytes: usize) -> Result<u64> {
    let socket = open(device)?;
    let file = File::create(out).map_err(Error::io("creating the capture"))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    header(&mut file, snap_bytes).map_err(Error::io("writing the capture"))?;
    stop_on_signals();
    println!("capturing {device}");
    let mut raw = vec![0; MOST_BYTES];
    let mut count = 0;
    while let Some(length) = receive(&socket, &mut raw)? {
        let kept = &raw[..length.min(snap_bytes)];
        packet(&mut file, arrival(&socket), kept, length)
            .map_err(Error::io("writing the capture"))?;
        count += 1;
    }
    file.flush().map_err(Error::io("writing the capture"))?;
    Ok(count)
}

/// A socket receiving every packet of the device, in either direction.
fn open(device: &str) -> Result<OwnedFd> {
    let missing = || Error::Usage(format!("there is no device {device}"));
    let name = CString::new(device).map_err(|_| missing())?;
    // SAFETY: `name` is a terminated string and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(missing());
    }
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: it returns a descriptor with no other owner, or an error.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(protocol)) };
    if socket < 0 {
        return Err(Error::io("opening a packet socket")(
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: the descriptor was just opened, and is owned from now on.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index as i32;
    // SAFETY: the address outlives the call, and its size is passed.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(Error::io("binding a packet socket")(
            io::Error::last_os_error(),
        ));
    }
    Ok(socket)
}

extern "C" fn stop(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Makes a signal end the waiting call; a handler set by `signal` would restart the call.
fn stop_on_signals() {
    // SAFETY: all zeros is a valid action; the handler only stores a flag.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The length of the next packet; `None` when it is time to end.
fn receive(socket: &OwnedFd, raw: &mut [u8]) -> Result<Option<usize>> {
    while !STOP.load(Ordering::Relaxed) {
        // A signal between the look and the call must not be missed for long.
        let mut ready = libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor, and it outlives the call.
        if unsafe { libc::poll(&raw mut ready, 1, 200) } <= 0 {
            continue;
        }
        // SAFETY: the buffer outlives the call; the call writes at most its length.
        let length = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                raw.as_mut_ptr().cast(),
                raw.len(),
                libc::MSG_TRUNC | libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(length) {
            Ok(length) => return Ok(Some(length)),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => {}
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(Error::io("reading packets")(error)),
            },
        }
    }
    Ok(None)
}

/// Seconds and nanoseconds.
fn arrival(socket: &OwnedFd) -> (u32, u32) {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes a timespec; `at` outlives the call.
    unsafe { libc::ioctl(socket.as_raw_fd(), GET_ARRIVAL, &raw mut at) };
    (at.tv_sec as u32, at.tv_nsec as u32)
}

fn header(out: &mut impl Write, snap_bytes: usize) -> io::Result<()> {
    out.write_all(&MAGIC_NANOSECONDS.to_ne_bytes())?;
    out.write_all(&[2u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat())?;
    let snap = u32::try_from(snap_bytes).unwrap_or(u32::MAX);
    for word in [0, 0, snap, LINK_ETHERNET] {
        out.write_all(&word.to_ne_bytes())?;
    }
    Ok(())
}

fn packet(
    out: &mut impl Write,
    (seconds, nanoseconds): (u32, u32),
    kept: &[u8],
    length: usize,
) -> io::Result<()> {
    for word in [seconds, nanoseconds, kept.len() as u32, length as u32] {
        out.write_all(&word.to_ne_bytes())?;
    }
    out.write_all(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_file_has_header_and_kept_bytes() {
        let mut out = Vec::new();
        header(&mut out, 96).unwrap();
        packet(&mut out, (5, 7), &[1, 2, 3], 1514).unwrap();
        let word = |at: usize| u32::from_ne_bytes(out[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(16), word(20)), (MAGIC_NANOSECONDS, 96, 1));
        assert_eq!([word(24), word(28), word(32), word(36)], [5, 7, 3, 1514]);
        assert_eq!(out[40..], [1, 2, 3]);
    }

    #[test]
    fn a_device_that_is_not_there_is_told() {
        let told = open("none-such").unwrap_err().to_string();
        assert!(told.contains("no device none-such"), "{told}");
    }
}
