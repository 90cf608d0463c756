//! A tap at a device: the packets that pass it, as the kernel's own packet sockets see them (packet(7)).

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

use crate::{net::Netns, process::in_netns};

/// `SKF_AD_OFF + SKF_AD_MARK` of linux/filter.h: where a filter finds a packet's mark.
const MARK: u32 = 0xffff_f000 + 20;
const ANY_PROTOCOL: u16 = 0x0003; // ETH_P_ALL

/// A tap. Packets that do not fit into its buffer are lost.
#[derive(Debug)]
pub struct Tap(OwnedFd);

impl Tap {
    /// Taps all packets of a device.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn new(netns: &Netns, device: &str) -> Self {
        Self::open(netns, device, None)
    }

    /// Taps only packets with this mark.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn of_mark(netns: &Netns, device: &str, mark: u32) -> Self {
        Self::open(netns, device, Some(mark))
    }

    fn open(netns: &Netns, device: &str, mark: Option<u32>) -> Self {
        let device = std::ffi::CString::new(device).unwrap();
        in_netns(netns, || {
            // SAFETY: a plain system call.
            let fd =
                unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            // SAFETY: a descriptor just opened, and nobody else has it.
            let tap = Tap(unsafe { OwnedFd::from_raw_fd(fd) });
            if let Some(mark) = mark {
                tap.filter(mark);
            }
            // SAFETY: all zeros are a valid address; the name ends with a zero.
            let (mut address, index) = unsafe {
                let address: libc::sockaddr_ll = std::mem::zeroed();
                (address, libc::if_nametoindex(device.as_ptr()))
            };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = ANY_PROTOCOL.to_be();
            address.sll_ifindex = index as i32;
            // SAFETY: the address is as long as is said.
            let bound = unsafe {
                let length = size_of::<libc::sockaddr_ll>() as u32;
                libc::bind(fd, (&raw const address).cast(), length)
            };
            assert_eq!(bound, 0, "{}", io::Error::last_os_error());
            tap
        })
    }

    /// Sends a frame from the device.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the frame is readable for its length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// Has the kernel drop packets with another mark before they get here.
    fn filter(&self, mark: u32) {
        let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, MARK),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, mark),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: the program and its steps live until the call is over, and the kernel copies them.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as u32,
            )
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }

    /// The next packet from its link header on, if one comes within this time. Long ones are cut.
    pub fn next_within(&self, time: Duration) -> Option<Vec<u8>> {
        let mut ready = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut bytes = vec![0u8; 2048];
        // SAFETY: one descriptor, and a buffer of the stated length.
        let count = unsafe {
            if libc::poll(&raw mut ready, 1, time.as_millis() as i32) != 1 {
                return None;
            }
            libc::recv(
                self.0.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                0,
            )
        };
        bytes.truncate(usize::try_from(count).ok()?);
        Some(bytes)
    }

    /// Takes the waiting packets; returns their number.
    pub fn drain(&self) -> usize {
        std::iter::from_fn(|| self.next_within(Duration::ZERO)).count()
    }
}
