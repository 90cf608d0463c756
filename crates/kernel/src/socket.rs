//! Facts known only from a socket: whether an algorithm is available, and the namespace's cookie.

use std::{
    collections::HashSet,
    io,
    mem::size_of,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::{Error, host};

/// How an algorithm came to be usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmSource {
    /// It was registered already.
    Registered,
    /// Its module was loaded now.
    Loaded,
    /// There is no algorithm of that name, or its module cannot be loaded.
    Missing,
}

fn tcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed; the result is checked before it becomes an owned descriptor.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fd is a descriptor just opened here, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes an algorithm usable: with CAP_NET_ADMIN the kernel loads the module `tcp_<name>` when a
/// socket asks for the algorithm. BPF cannot do this, so the daemon does it before.
///
/// # Errors
/// [`Error::System`] if not even a socket can be opened.
pub fn load_algorithm(name: &str) -> Result<AlgorithmSource, Error> {
    if host::registered_algorithms().iter().any(|n| n == name) {
        return Ok(AlgorithmSource::Registered);
    }
    let socket = tcp_socket().map_err(|source| Error::System {
        action: "open a TCP socket",
        source,
    })?;
    Ok(match set_algorithm(socket.as_raw_fd(), name) {
        Ok(()) => AlgorithmSource::Loaded,
        Err(_) => AlgorithmSource::Missing,
    })
}

/// Sets a socket's congestion control, as an application may.
pub(crate) fn set_algorithm(socket: i32, name: &str) -> io::Result<()> {
    // SAFETY: name's bytes are readable for the length given; the kernel copies them.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The cookie of this process's network namespace (SO_NETNS_COOKIE, kernel 5.14), as in the keys of paths.
///
/// # Errors
/// [`Error::System`] on an older kernel.
pub fn own_netns_cookie() -> Result<u64, Error> {
    let fail = |source| Error::System {
        action: "read the network namespace's cookie",
        source,
    };
    let socket = tcp_socket().map_err(fail)?;
    let mut cookie = 0u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: cookie and len are valid for writes of the size given by len.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(fail(io::Error::last_os_error()));
    }
    Ok(cookie)
}

/// The cookie of a namespace in /run/netns.
///
/// # Errors
/// [`Error::System`] if it does not exist, or may not be entered (CAP_SYS_ADMIN).
pub fn netns_cookie(name: &str) -> Result<u64, Error> {
    let path = std::path::Path::new("/run/netns").join(name);
    let netns = std::fs::File::open(path).map_err(cannot_enter)?;
    in_netns(&netns, own_netns_cookie)?
}

/// The cookies of all network namespaces with a name or a process; `None` if this process may not see them all.
pub fn living_netns() -> Option<HashSet<u64>> {
    if !host::sees_all_netns() {
        return None;
    }
    let mut cookies = HashSet::from([own_netns_cookie().ok()?]);
    for netns in host::all_netns() {
        cookies.insert(in_netns(&netns, own_netns_cookie).ok()?.ok()?);
    }
    Some(cookies)
}

fn cannot_enter(source: io::Error) -> Error {
    Error::System {
        action: "enter a network namespace",
        source,
    }
}

/// Makes this thread, and no other, enter a namespace.
pub(crate) fn enter_netns(netns: &std::fs::File) -> Result<(), Error> {
    // SAFETY: a plain system call with an open descriptor; it changes the namespace of this thread only.
    match unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(cannot_enter(io::Error::last_os_error())),
    }
}

/// Runs `f` inside a namespace, on a thread of its own that ends after it.
///
/// # Errors
/// [`Error::System`] if it may not be entered (CAP_SYS_ADMIN).
pub fn in_netns<T: Send>(netns: &std::fs::File, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let enter_and_run = || enter_netns(netns).map(|()| f());
    std::thread::scope(|scope| scope.spawn(enter_and_run).join())
        .unwrap_or_else(|_| Err(cannot_enter(io::ErrorKind::Other.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reno_is_always_there_and_nonsense_is_missing() {
        assert_eq!(load_algorithm("reno").unwrap(), AlgorithmSource::Registered);
        assert_eq!(
            load_algorithm("nonsense_cc").unwrap(),
            AlgorithmSource::Missing
        );
    }
}
