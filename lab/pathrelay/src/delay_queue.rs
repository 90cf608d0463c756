//! The delay queues of one direction: packets to some destinations have a delay and losses of their own.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use crate::{
    line::{Line, MOST},
    link::{Change, Loss},
    loss::RandomLoss,
};

/// `struct virtio_net_hdr`, before each packet.
pub const HEADER: usize = 10;

/// Packets with the same delay and the same chance to be lost.
#[derive(Debug)]
pub struct DelayQueue {
    pub line: Line,
    delay: Duration,
    loss: Loss,
    random_loss: RandomLoss,
}

impl DelayQueue {
    /// `memory`: most bytes under way.
    #[must_use]
    pub fn new(delay: Duration, loss: Loss, seed: u64, memory: usize) -> DelayQueue {
        DelayQueue {
            line: Line::new(memory),
            delay,
            loss,
            random_loss: RandomLoss::new(loss, seed),
        }
    }

    pub fn change(&mut self, change: &Change) {
        self.delay = change.delay.unwrap_or(self.delay);
        self.loss.share = change.share.unwrap_or(self.loss.share);
        self.loss.burst = change.burst.unwrap_or(self.loss.burst);
        self.random_loss.set(self.loss);
    }

    /// Decides about the packet in the line's room, received at `now_ns`: on its way (`true`), or lost.
    fn take(&mut self, len: usize, now_ns: u64) -> bool {
        if self.random_loss.is_lost() {
            return false;
        }
        // Not before the packet ahead of it, if the delay has become shorter.
        let due_ns = now_ns + self.delay.as_nanos() as u64;
        self.line.push(len, due_ns.max(self.line.last_due_ns()));
        true
    }
}

/// The fate of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Taken,
    Lost,
    /// There is no room on its delay queue.
    NoRoom,
}

/// All delay queues of a direction. The first one is for destinations without a delay queue of their own.
#[derive(Debug)]
pub struct DelayQueues {
    list: Vec<DelayQueue>,
    by_destination: HashMap<IpAddr, usize>,
}

impl DelayQueues {
    #[must_use]
    pub fn new(first: DelayQueue) -> DelayQueues {
        DelayQueues {
            list: vec![first],
            by_destination: HashMap::new(),
        }
    }

    /// One more delay queue, for packets to these addresses.
    pub fn add(&mut self, queue: DelayQueue, addresses: impl IntoIterator<Item = IpAddr>) {
        let number = self.list.len();
        self.list.push(queue);
        let added = addresses.into_iter().map(|address| (address, number));
        self.by_destination.extend(added);
    }

    /// The first delay queue.
    pub fn first(&self) -> &DelayQueue {
        &self.list[0]
    }

    /// The first delay queue, to change it.
    pub fn first_mut(&mut self) -> &mut DelayQueue {
        &mut self.list[0]
    }

    /// The delay queue with the earliest due packet, and its due time.
    pub fn next(&mut self) -> Option<(u64, &mut DelayQueue)> {
        let due = |queue: &&mut DelayQueue| queue.line.due_ns().unwrap_or(u64::MAX);
        let next = self.list.iter_mut().min_by_key(due)?;
        Some((next.line.due_ns()?, next))
    }

    /// Decides about the packet of `len` bytes in the room of the first delay queue's line.
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
        let Some(queue) = number.and_then(|number| rest.get_mut(number - 1)) else {
            return fate(first.take(len, now_ns));
        };
        let Some(own) = queue.line.room() else {
            return Fate::NoRoom;
        };
        own[..len].copy_from_slice(&room[..len]);
        fate(queue.take(len, now_ns))
    }

    /// Sum over all delay queues of the most bytes under way, each at its own time.
    #[must_use]
    pub fn most_held(&self) -> usize {
        self.list.iter().map(|queue| queue.line.most_held()).sum()
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

    fn queue(delay_ms: u64, share: f64) -> DelayQueue {
        let loss = Loss { share, ..NO_LOSS };
        DelayQueue::new(Duration::from_millis(delay_ms), loss, 1, 0)
    }

    /// A packet to an IPv4 address, whose bytes after the headers are `mark`.
    fn packet(to: [u8; 4], mark: u8) -> Vec<u8> {
        let mut packet = vec![mark; HEADER + 60];
        packet[HEADER] = 0x45;
        packet[HEADER + 16..HEADER + 20].copy_from_slice(&to);
        packet
    }

    fn give(queues: &mut DelayQueues, packet: &[u8], now_ns: u64) -> Fate {
        let room = queues.first_mut().line.room().unwrap();
        room[..packet.len()].copy_from_slice(packet);
        queues.take(packet.len(), now_ns)
    }

    #[test]
    fn a_destination_has_its_own_delay_and_loss() {
        let mut queues = DelayQueues::new(queue(10, 0.0));
        queues.add(queue(50, 0.0), [IpAddr::from([198, 18, 0, 1])]);
        queues.add(queue(5, 1.0), [IpAddr::from([198, 18, 0, 2])]);
        assert_eq!(
            give(&mut queues, &packet([198, 18, 0, 1], 1), 0),
            Fate::Taken
        );
        assert_eq!(give(&mut queues, &packet([10, 0, 0, 1], 2), 0), Fate::Taken);
        assert_eq!(
            give(&mut queues, &packet([198, 18, 0, 2], 3), 0),
            Fate::Lost
        );
        for (at_ms, mark) in [(10, 2), (50, 1)] {
            let (due_ns, queue) = queues.next().unwrap();
            assert_eq!(due_ns, at_ms * 1_000_000);
            let first = queue.line.first().unwrap();
            assert_eq!((first.len(), first[HEADER + 40]), (HEADER + 60, mark));
            queue.line.pop();
        }
        assert!(queues.next().is_none());
    }

    #[test]
    fn packet_order_survives_a_shorter_delay() {
        let mut queues = DelayQueues::new(queue(50, 0.0));
        give(&mut queues, &packet([10, 0, 0, 1], 1), 0);
        queues.first_mut().change(&Change {
            at: Duration::ZERO,
            delay: Some(Duration::from_millis(1)),
            share: None,
            burst: None,
        });
        give(&mut queues, &packet([10, 0, 0, 1], 2), 1_000_000);
        for mark in [1, 2] {
            let (due_ns, queue) = queues.next().unwrap();
            assert_eq!(due_ns, 50_000_000);
            assert_eq!(queue.line.first().unwrap()[HEADER + 40], mark);
            queue.line.pop();
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
