//! A TUN device in a network namespace. Packets pass as made by the sending stack: with the virtio_net
//! header, a segment of 64 KiB stays one packet, and its checksum is left to a later device or stack
//! (Documentation/networking/tuntap.rst of the kernel; virtio 1.2, section 5.1.6).

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, open},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

/// A device. It lives as long as its descriptor.
#[derive(Debug)]
pub struct Tun {
    pub fd: OwnedFd,
}

/// Offloads accepted by the device: TCP segments beyond the MTU, and packets without checksums.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// Makes the device `name` in the namespace `namespace` of `ip netns`. The calling thread is in its own
/// namespace again afterwards.
///
/// # Errors
/// The kernel's, with the refused call.
pub fn make(namespace: &str, name: &str) -> io::Result<Tun> {
    let own = File::open("/proc/thread-self/ns/net")?;
    let other = File::open(Path::new("/run/netns").join(namespace))
        .map_err(|error| told(error, format!("network namespace {namespace}")))?;
    enter(&other)?;
    let made = make_here(name);
    enter(&own)?;
    made
}

fn enter(namespace: &File) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(
        std::os::fd::AsFd::as_fd(namespace),
        kind,
    )?)
}

fn make_here(name: &str) -> io::Result<Tun> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = open("/dev/net/tun", flags, Mode::empty())
        .map_err(|error| told(error.into(), "/dev/net/tun".into()))?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        let text = format!("'{name}' is no name of a device: 1 to 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // NAPI: outgoing packets pass GRO, as from a network card.
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_NAPI;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request is an ifreq, as TUNSETIFF takes it, and outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
        .map_err(|error| told(error, format!("device {name}")))?;
    // SAFETY: TUNSETOFFLOAD takes a number.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, OFFLOADS) })
        .map_err(|error| told(error, format!("offloads of {name}")))?;
    Ok(Tun { fd })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn told(error: io::Error, what: String) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
