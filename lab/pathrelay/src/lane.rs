//! The lanes of one direction: packets to some destinations have a delay and losses of their own.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use crate::{
    line::{Line, MOST},
    link::{Change, Loss},
    luck::Luck,
};

/// `struct virtio_net_hdr`, before each packet.
pub const HEADER: usize = 10;

/// Packets with the same delay and the same chance to be lost.
#[derive(Debug)]
pub struct Lane {
    pub line: Line,
    delay: Duration,
    loss: Loss,
    luck: Luck,
}

impl Lane {
    /// `memory`: bytes that may be under way.
    #[must_use]
    pub fn new(delay: Duration, loss: Loss, seed: u64, memory: usize) -> Lane {
        Lane {
            line: Line::new(memory),
            delay,
            loss,
            luck: Luck::new(loss, seed),
        }
    }

    pub fn change(&mut self, change: &Change) {
        self.delay = change.delay.unwrap_or(self.delay);
        self.loss.share = change.share.unwrap_or(self.loss.share);
        self.loss.burst = change.burst.unwrap_or(self.loss.burst);
        self.luck.set(self.loss);
    }

    /// The fate of the packet in the line's room, which came at `now_ns`: on its way (`true`), or lost.
    fn take(&mut self, len: usize, now_ns: u64) -> bool {
        if self.luck.is_lost() {
            return false;
        }
        // Not before the packet ahead of it, if the delay has become shorter.
        let due_ns = now_ns + self.delay.as_nanos() as u64;
        self.line.push(len, due_ns.max(self.line.last_due_ns()));
        true
    }
}

/// What became of a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Taken,
    Lost,
    /// There is no room on its lane.
    NoRoom,
}

/// All lanes of a direction. The first one is for destinations without a lane of their own.
#[derive(Debug)]
pub struct Lanes {
    list: Vec<Lane>,
    by_destination: HashMap<IpAddr, usize>,
}

impl Lanes {
    #[must_use]
    pub fn new(first: Lane) -> Lanes {
        Lanes {
            list: vec![first],
            by_destination: HashMap::new(),
        }
    }

    /// One more lane, for packets to these addresses.
    pub fn add(&mut self, lane: Lane, addresses: impl IntoIterator<Item = IpAddr>) {
        let number = self.list.len();
        self.list.push(lane);
        let added = addresses.into_iter().map(|address| (address, number));
        self.by_destination.extend(added);
    }

    /// The first lane.
    pub fn first(&self) -> &Lane {
        &self.list[0]
    }

    /// The first lane, to change it.
    pub fn first_mut(&mut self) -> &mut Lane {
        &mut self.list[0]
    }

    /// The lane whose first packet is due before those of the others, and when that is.
    pub fn next(&mut self) -> Option<(u64, &mut Lane)> {
        let due = |lane: &&mut Lane| lane.line.due_ns().unwrap_or(u64::MAX);
        let next = self.list.iter_mut().min_by_key(due)?;
        Some((next.line.due_ns()?, next))
    }

    /// Decides about the packet of `len` bytes that was read into the room of the first lane's line.
    pub fn take(&mut self, len: usize, now_ns: u64) -> Fate {
        let (first, rest) = match self.list.split_first_mut() {
            Some(found) if !self.by_destination.is_empty() => found,
            _ => return fate(self.list[0].take(len, now_ns)),
        };
        let Some(room) = first.line.room() else {
            return Fate::NoRoom;
        };
        let to = destination(&room[..len.min(MOST)]);
        let number = to.and_then(|to| self.by_destination.get(&to).copied());
        let Some(lane) = number.and_then(|number| rest.get_mut(number - 1)) else {
            return fate(first.take(len, now_ns));
        };
        let Some(own) = lane.line.room() else {
            return Fate::NoRoom;
        };
        own[..len].copy_from_slice(&room[..len]);
        fate(lane.take(len, now_ns))
    }

    /// The most bytes that were under way on all lanes, each at its own time.
    #[must_use]
    pub fn most_held(&self) -> usize {
        self.list.iter().map(|lane| lane.line.most_held()).sum()
    }
}

fn fate(is_taken: bool) -> Fate {
    if is_taken { Fate::Taken } else { Fate::Lost }
}

/// Where a packet goes: RFC 791, section 3.1, and RFC 8200, section 3.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    let packet = packet.get(HEADER..)?;
    match packet.first()? >> 4 {
        4 => {
            let bytes: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some(Ipv4Addr::from(bytes).into())
        }
        6 => {
            let bytes: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LOSS: Loss = Loss {
        share: 0.0,
        burst: 1.0,
    };

    fn lane(delay_ms: u64, share: f64) -> Lane {
        let loss = Loss { share, ..NO_LOSS };
        Lane::new(Duration::from_millis(delay_ms), loss, 1, 0)
    }

    /// A packet to an IPv4 address, whose bytes after the headers are `mark`.
    fn packet(to: [u8; 4], mark: u8) -> Vec<u8> {
        let mut packet = vec![mark; HEADER + 60];
        packet[HEADER] = 0x45;
        packet[HEADER + 16..HEADER + 20].copy_from_slice(&to);
        packet
    }

    fn give(lanes: &mut Lanes, packet: &[u8], now_ns: u64) -> Fate {
        let room = lanes.first_mut().line.room().unwrap();
        room[..packet.len()].copy_from_slice(packet);
        lanes.take(packet.len(), now_ns)
    }

    #[test]
    fn a_destination_has_its_own_delay_and_loss() {
        let mut lanes = Lanes::new(lane(10, 0.0));
        lanes.add(lane(50, 0.0), [IpAddr::from([198, 18, 0, 1])]);
        lanes.add(lane(5, 1.0), [IpAddr::from([198, 18, 0, 2])]);
        assert_eq!(
            give(&mut lanes, &packet([198, 18, 0, 1], 1), 0),
            Fate::Taken
        );
        assert_eq!(give(&mut lanes, &packet([10, 0, 0, 1], 2), 0), Fate::Taken);
        assert_eq!(give(&mut lanes, &packet([198, 18, 0, 2], 3), 0), Fate::Lost);
        for (at_ms, mark) in [(10, 2), (50, 1)] {
            let (due_ns, lane) = lanes.next().unwrap();
            assert_eq!(due_ns, at_ms * 1_000_000);
            let first = lane.line.first().unwrap();
            assert_eq!((first.len(), first[HEADER + 40]), (HEADER + 60, mark));
            lane.line.pop();
        }
        assert!(lanes.next().is_none());
    }

    #[test]
    fn a_packet_keeps_its_place_on_its_lane_if_the_delay_becomes_shorter() {
        let mut lanes = Lanes::new(lane(50, 0.0));
        give(&mut lanes, &packet([10, 0, 0, 1], 1), 0);
        lanes.first_mut().change(&Change {
            at: Duration::ZERO,
            delay: Some(Duration::from_millis(1)),
            share: None,
            burst: None,
        });
        give(&mut lanes, &packet([10, 0, 0, 1], 2), 1_000_000);
        for mark in [1, 2] {
            let (due_ns, lane) = lanes.next().unwrap();
            assert_eq!(due_ns, 50_000_000);
            assert_eq!(lane.line.first().unwrap()[HEADER + 40], mark);
            lane.line.pop();
        }
    }

    #[test]
    fn the_destination_is_read_from_either_version() {
        assert_eq!(
            destination(&packet([1, 2, 3, 4], 0)),
            Some(IpAddr::from([1, 2, 3, 4]))
        );
        let mut six = vec![0; HEADER + 60];
        six[HEADER] = 0x60;
        six[HEADER + 24] = 0x20;
        six[HEADER + 39] = 0x01;
        assert_eq!(destination(&six), Some("2000::1".parse().unwrap()));
        assert_eq!(destination(&six[..HEADER + 30]), None);
        assert_eq!(destination(&[]), None);
    }
}
