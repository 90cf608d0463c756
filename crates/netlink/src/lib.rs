//! Netlink (netlink(7)): a socket, messages, and their attributes.
//!
//! [`tc`] is traffic control on top of it; `tcpilot cc list` counts sockets with sock_diag, and flowgen reads
//! a queue's counters.
//!
//! No crate is used for this. netlink-packet-route reads the options of some qdiscs into fields and writes
//! only those, but tcpilot must put a qdisc back byte for byte. It has no HTB and no FIFO.
//! Only framing remains, which is this file; see decision 13.

pub mod device;
pub mod tc;

use std::{cell::Cell, io, os::fd::OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send,
    socket_with, sockopt,
};

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
/// The kernel's largest part of a dump is 32 KiB (linux/netlink.h, `netlink_dump`).
const ANSWER_BYTES: usize = 1 << 16;
/// Room for the announcements between two reads: about ten thousand sockets.
const ANNOUNCED_BYTES: usize = 1 << 23;

/// The kernel subsystem at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// rtnetlink(7).
    Route,
    /// sock_diag(7).
    SocketDiagnosis,
}

/// A question to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// The message's type, such as `RTM_GETQDISC`.
    pub kind: u16,
    /// `NLM_F_…`, without `NLM_F_REQUEST`. An answer has an end only with `NLM_F_DUMP` or `NLM_F_ACK`.
    pub flags: i32,
    /// The structure at the start of this type of message.
    pub fixed: &'a [u8],
    /// The attributes after it, [`Attributes::bytes`].
    pub attributes: &'a [u8],
}

/// A netlink socket of one network namespace: the caller's at the time of opening.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    sequence: Cell<u32>,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(subsystem: Subsystem) -> io::Result<Socket> {
        let protocol = match subsystem {
            Subsystem::Route => None, // its number is 0
            Subsystem::SocketDiagnosis => Some(netlink::SOCK_DIAG),
        };
        Ok(Socket {
            socket: socket_with(
                AddressFamily::NETLINK,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                protocol,
            )?,
            sequence: Cell::new(0),
        })
    }

    /// Opens a socket for the kernel's announcements to these groups of listeners (`SKNLGRP_…`; bit 0 is
    /// group 1), in the calling thread's network namespace. [`Socket::announced`] reads them.
    ///
    /// # Errors
    /// The kernel's. Anybody may listen to the ends of sockets.
    pub fn listen(subsystem: Subsystem, groups: u32) -> io::Result<Socket> {
        let opened = Socket::open(subsystem)?;
        // A burst of ends must not be lost. Without the privilege the usual size has to do.
        let _ = sockopt::set_socket_recv_buffer_size_force(&opened.socket, ANNOUNCED_BYTES);
        bind(&opened.socket, &netlink::SocketAddrNetlink::new(0, groups))?;
        Ok(opened)
    }

    /// Calls `each` with the data after the header of each message announced by now.
    ///
    /// # Errors
    /// The kernel's; `ENOBUFS` if there were more announcements than the socket has room for.
    pub fn announced(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; ANSWER_BYTES];
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        loop {
            let length = match recv(&self.socket, buffer.as_mut_slice(), flags) {
                Ok((_, length)) => length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let mut datagram = buffer.get(..length).ok_or(io::ErrorKind::InvalidData)?;
            while !datagram.is_empty() {
                let message = Message::read(datagram).ok_or(io::ErrorKind::InvalidData)?;
                datagram = datagram.get(message.padded_bytes..).unwrap_or_default();
                each(message.body);
            }
        }
    }

    /// Asks, and calls `each` with the data after the header of each message of the answer.
    ///
    /// # Errors
    /// The kernel's refusal; [`io::ErrorKind::InvalidData`] for a truncated answer.
    pub fn ask(&self, question: &Question<'_>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let message = encode(question, sequence);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let (_, length) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::TRUNC)?;
            let datagram = buffer.get(..length).ok_or(io::ErrorKind::InvalidData)?;
            if messages(datagram, sequence, &mut each)? {
                return Ok(());
            }
        }
    }
}

fn encode(question: &Question<'_>, sequence: u32) -> Vec<u8> {
    let length = HEADER_BYTES + question.fixed.len() + question.attributes.len();
    let flags = (question.flags | libc::NLM_F_REQUEST) as u16;
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    message.extend(question.kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes()); // port: the kernel fills it in
    message.extend(question.fixed);
    message.extend(question.attributes);
    message
}

/// Calls `each` with the messages of a datagram; says whether the answer ends with it.
///
/// Skips messages with another sequence number: they answer an earlier question, ended by an error.
///
/// # Errors
/// The kernel's refusal; [`io::ErrorKind::InvalidData`] for a message cut short.
pub fn messages(
    mut datagram: &[u8],
    sequence: u32,
    each: &mut impl FnMut(&[u8]),
) -> io::Result<bool> {
    while !datagram.is_empty() {
        let message = Message::read(datagram).ok_or(io::ErrorKind::InvalidData)?;
        datagram = datagram.get(message.padded_bytes..).unwrap_or_default();
        if message.sequence != sequence {
            continue;
        }
        match i32::from(message.kind) {
            // A dump ends with the error, too, if it fails midway.
            libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                let code = u32_at(message.body, 0).unwrap_or(0) as i32;
                return match code {
                    0.. => Ok(true),
                    _ => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                };
            }
            libc::NLMSG_NOOP => {}
            _ => each(message.body),
        }
    }
    Ok(false)
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
    padded_bytes: usize,
}

impl<'a> Message<'a> {
    /// The first message of a datagram; `None` if it is cut short.
    fn read(datagram: &'a [u8]) -> Option<Message<'a>> {
        let length = u32_at(datagram, 0)? as usize;
        Some(Message {
            kind: u16_at(datagram, 4)?,
            sequence: u32_at(datagram, 8)?,
            body: datagram.get(HEADER_BYTES..length)?,
            padded_bytes: length.next_multiple_of(4),
        })
    }
}

/// `struct nlattr`: length and type.
const ATTRIBUTE_HEADER_BYTES: usize = size_of::<libc::nlattr>();

/// Attributes under construction.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds an attribute; its value may be [`Attributes::bytes`] of others.
    #[must_use]
    pub fn add(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + ATTRIBUTE_HEADER_BYTES).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a text attribute.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.add(kind, &[value.as_bytes(), b"\0"].concat())
    }

    /// The attributes as in a message.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The types and values of the attributes, up to the first incomplete one.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & libc::NLA_TYPE_MASK as u16;
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a type.
#[must_use]
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// A text value, with or without its final zero byte.
#[must_use]
pub fn text(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The number at this offset, in the host's byte order, if the bytes reach so far.
#[must_use]
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

/// The number at this offset, in the host's byte order, if the bytes reach so far.
#[must_use]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

/// The number at this offset, in the host's byte order, if the bytes reach so far.
#[must_use]
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: i32, sequence: u32, body: &[u8]) -> Vec<u8> {
        let question = Question {
            kind: kind as u16,
            fixed: body,
            ..Question::default()
        };
        encode(&question, sequence)
    }

    fn read(datagram: &[u8]) -> (io::Result<bool>, Vec<Vec<u8>>) {
        let mut bodies = Vec::new();
        let ends = messages(datagram, 7, &mut |body: &[u8]| bodies.push(body.to_vec()));
        (ends, bodies)
    }

    #[test]
    fn a_question_has_the_kernels_header() {
        let attributes = Attributes::default().text(1, "htb");
        let question = Question {
            kind: libc::RTM_GETQDISC,
            flags: libc::NLM_F_DUMP,
            fixed: &[1, 2, 3, 4],
            attributes: attributes.bytes(),
        };
        let words = [28u32, 0x0301_0026, 9, 0, 0x0403_0201, 0x0001_0008];
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(encode(&question, 9), [&expected[..], b"htb\0"].concat());
    }

    #[test]
    fn an_answer_is_all_messages_to_its_end() {
        let one = message(20, 7, &[1; 5]);
        let padded = [&one[..], &[0; 3]].concat();
        let (ends, bodies) = read(&[&padded[..], &message(20, 7, &[2; 4])].concat());
        assert!(!ends.unwrap());
        assert_eq!(bodies, [vec![1; 5], vec![2; 4]]);
        let done = message(libc::NLMSG_DONE, 7, &[0; 4]);
        let (ends, bodies) = read(&[&padded[..], &done].concat());
        assert!(ends.unwrap());
        assert_eq!(bodies.len(), 1);
    }

    #[test]
    fn kernel_error_becomes_io_error() {
        for end in [libc::NLMSG_ERROR, libc::NLMSG_DONE] {
            let code = (-libc::EEXIST).to_ne_bytes();
            let error = read(&message(end, 7, &code)).0.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
    }

    #[test]
    fn leftover_of_abandoned_reply_is_skipped() {
        let old = message(libc::NLMSG_ERROR, 6, &(-libc::EEXIST).to_ne_bytes());
        let (ends, bodies) = read(&[old, message(20, 7, &[3; 4])].concat());
        assert!(!ends.unwrap());
        assert_eq!(bodies, [[3; 4]]);
    }

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let inner = Attributes::default().add(7, &[1, 2, 3, 4, 5]);
        let outer = Attributes::default()
            .text(1, "htb")
            .add(2 | libc::NLA_F_NESTED as u16, inner.bytes())
            .add(3, &[]);
        assert_eq!(outer.bytes().len() % 4, 0);
        let kinds: Vec<u16> = attributes(outer.bytes()).map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [1, 2, 3]);
        assert_eq!(text(attribute(outer.bytes(), 1).unwrap()), "htb");
        let nested = attribute(outer.bytes(), 2).unwrap();
        assert_eq!(attribute(nested, 7), Some(&[1, 2, 3, 4, 5][..]));
        assert_eq!(attribute(outer.bytes(), 4), None);
    }

    proptest! {
        #[test]
        fn an_attribute_that_is_cut_short_is_none(value in prop::collection::vec(any::<u8>(), 1..40)) {
            let whole = Attributes::default().add(1, &value);
            let used = ATTRIBUTE_HEADER_BYTES + value.len();
            for length in 0..used {
                prop_assert_eq!(attribute(&whole.bytes()[..length], 1), None);
            }
            prop_assert_eq!(attribute(&whole.bytes()[..used], 1), Some(&value[..]));
        }

        #[test]
        fn whatever_comes_the_reading_ends(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            attributes(&bytes).for_each(drop);
            let _ = read(&bytes);
        }

        #[test]
        fn truncated_datagram_is_an_error(length in 1usize..24) {
            let whole = message(20, 7, &[9; 8]);
            prop_assert!(whole.len() == 24 && read(&whole[..length]).0.is_err());
        }
    }
}
