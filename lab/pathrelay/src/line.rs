//! The packets under way in one direction: bytes in a ring, each packet with its due time.

use std::collections::VecDeque;

/// The most bytes a device hands over at once: a packet of 64 KiB and its header.
pub const MOST: usize = 65_536 + 64;

#[derive(Clone, Copy, Debug)]
struct Packet {
    start: usize,
    len: usize,
    due_ns: u64,
}

/// A delay line. Packets leave in the order of their arrival.
#[derive(Debug)]
pub struct Line {
    bytes: Box<[u8]>,
    queue: VecDeque<Packet>,
    /// Start of the next packet.
    tail: usize,
    held: usize,
    most_held: usize,
}

impl Line {
    /// A line for `capacity` bytes, or for one packet if a packet is larger.
    #[must_use]
    pub fn new(capacity: usize) -> Line {
        Line {
            bytes: vec![0; capacity.max(2 * MOST)].into_boxed_slice(),
            queue: VecDeque::new(),
            tail: 0,
            held: 0,
            most_held: 0,
        }
    }

    /// Room for one more packet of any size; `None` if the line is full.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let start = self.place()?;
        self.tail = start;
        Some(&mut self.bytes[start..start + MOST])
    }

    /// A packet is never split, so the ring's end stays empty when the next one may not fit there.
    fn place(&self) -> Option<usize> {
        let Some(head) = self.queue.front().map(|packet| packet.start) else {
            return Some(0);
        };
        if self.tail <= head {
            return (self.tail + MOST <= head).then_some(self.tail);
        }
        if self.tail + MOST <= self.bytes.len() {
            return Some(self.tail);
        }
        (MOST <= head).then_some(0)
    }

    /// Puts the packet written into [`Line::room`] under way.
    ///
    /// # Panics
    /// If it is longer than the room was.
    pub fn push(&mut self, len: usize, due_ns: u64) {
        assert!(len <= MOST, "a packet of {len} bytes");
        let start = self.tail;
        self.queue.push_back(Packet { start, len, due_ns });
        self.tail = start + len;
        self.held += len;
        self.most_held = self.most_held.max(self.held);
    }

    /// When the first packet is due.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.queue.front().map(|packet| packet.due_ns)
    }

    /// When the last packet is due; 0 if there is none.
    #[must_use]
    pub fn last_due_ns(&self) -> u64 {
        self.queue.back().map_or(0, |packet| packet.due_ns)
    }

    /// The first packet.
    #[must_use]
    pub fn first(&self) -> Option<&[u8]> {
        let packet = self.queue.front()?;
        Some(&self.bytes[packet.start..packet.start + packet.len])
    }

    /// The first packet has left.
    pub fn pop(&mut self) {
        if let Some(packet) = self.queue.pop_front() {
            self.held -= packet.len;
        }
    }

    /// Bytes and packets under way.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.held, self.queue.len())
    }

    /// The most bytes under way at once.
    #[must_use]
    pub fn most_held(&self) -> usize {
        self.most_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn full_line_has_room_after_packet_leaves() {
        let mut line = Line::new(0);
        for due in 0..2 {
            assert!(line.room().is_some());
            line.push(MOST, due);
        }
        assert!(line.room().is_none());
        line.pop();
        assert!(line.room().is_some());
    }

    proptest! {
        /// Packets come out as they went in, for any sizes and any order of coming and going.
        #[test]
        fn packets_leave_whole_and_in_order(steps in prop::collection::vec((any::<bool>(), 1..=MOST), 1..400)) {
            let mut line = Line::new(4 * MOST);
            let (mut came, mut left) = (0u64, 0u64);
            let mut sizes = VecDeque::new();
            for (comes, len) in steps {
                if comes {
                    let Some(room) = line.room() else { continue };
                    let len = len.max(8);
                    room[..8].copy_from_slice(&came.to_le_bytes());
                    room[len - 1] = came as u8;
                    room[..8].copy_from_slice(&came.to_le_bytes());
                    line.push(len, came);
                    sizes.push_back(len);
                    came += 1;
                } else if let Some(first) = line.first() {
                    prop_assert_eq!(Some(first.len()), sizes.pop_front());
                    prop_assert_eq!(&first[..8], &left.to_le_bytes()[..]);
                    prop_assert!(first.len() == 8 || first[first.len() - 1] == left as u8);
                    prop_assert_eq!(line.due_ns(), Some(left));
                    line.pop();
                    left += 1;
                }
            }
            prop_assert_eq!(sizes.iter().sum::<usize>(), line.held);
        }
    }
}
