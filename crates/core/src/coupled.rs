//! The coupled multipath algorithms as a program outside the kernel runs them: one [`Coupling`] for a
//! connection, one [`CoupledPath`] for each of its paths.
//!
//! The arithmetic is `bpf/cc/{lia,olia,balia}.h`, the same text as for MPTCP's subflows in the kernel. This
//! file takes the place of `bpf/cc/lib/mptcp.h`: it finds the other paths of the connection, and says when
//! the window grows and when it shrinks. The caller has the transport: acknowledgements, losses, a clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cc::*;

/// The places in the connection's table.
const PLACES: usize = TP_SUBFLOWS as usize;

/// Names one of the algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// RFC 6356.
    Lia,
    /// Khalili et al. 2012.
    Olia,
    /// Peng et al. 2016.
    Balia,
}

impl Law {
    /// The algorithm of this name, with or without the prefix of the kernel's names.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.strip_prefix("tp_").unwrap_or(name) {
            "lia" => Some(Self::Lia),
            "olia" => Some(Self::Olia),
            "balia" => Some(Self::Balia),
            _ => None,
        }
    }
}

/// The state shared by the paths of one connection.
#[derive(Debug)]
pub struct Coupling {
    law: Law,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    table: tp_coupled,
    next_id: u64,
}

impl Coupling {
    /// The coupling of a new connection without paths.
    #[must_use]
    pub fn new(law: Law) -> Arc<Self> {
        Arc::new(Self {
            law,
            shared: Mutex::default(),
        })
    }

    /// The number of paths with a place. The others count these, unless they are silent.
    #[must_use]
    pub fn paths(&self) -> usize {
        let shared = self.lock();
        shared.table.sub.iter().filter(|path| path.id != 0).count()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The algorithm's own state of a path.
#[derive(Debug)]
enum Private {
    Lia(tp_lia),
    Olia(tp_olia),
    Balia(tp_balia),
}

/// The window of one path. Dropping it frees its place in the connection.
#[derive(Debug)]
pub struct CoupledPath {
    coupling: Arc<Coupling>,
    id: u64,
    /// Its place; [`PLACES`] and above: it has none, and is coupled but not counted.
    place: usize,
    private: Private,
    window: tp_cwnd,
    before_loss: Option<tp_cwnd>,
}

impl CoupledPath {
    /// A new path with this window, in slow start.
    #[must_use]
    pub fn join(coupling: &Arc<Coupling>, packets: u32) -> Self {
        let mut shared = coupling.lock();
        shared.next_id += 1;
        let id = shared.next_id;
        let free = shared.table.sub.iter().position(|path| path.id == 0);
        let place = free.unwrap_or(PLACES);
        let entry = tp_subflow {
            id,
            cwnd: packets,
            ..tp_subflow::default()
        };
        match free {
            Some(at) => shared.table.sub[at] = entry,
            None => shared.table.guest = entry,
        }
        drop(shared);
        Self {
            coupling: Arc::clone(coupling),
            id,
            place,
            private: match coupling.law {
                Law::Lia => Private::Lia(tp_lia::default()),
                Law::Olia => Private::Olia(tp_olia::default()),
                Law::Balia => Private::Balia(tp_balia::default()),
            },
            window: tp_cwnd {
                packets,
                credit: 0,
                ssthresh: TP_SSTHRESH_MAX,
                clamp: u32::MAX,
            },
            before_loss: None,
        }
    }

    /// The congestion window in packets.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.window.packets
    }

    /// The slow-start threshold in packets; `None` before the first loss.
    #[must_use]
    pub fn ssthresh(&self) -> Option<u32> {
        (self.window.ssthresh < TP_SSTHRESH_MAX).then_some(self.window.ssthresh)
    }

    /// So many packets are acknowledged. `limited`: the window held the sender back; it grows only then
    /// (RFC 9002, section 7.8).
    pub fn acknowledge(&mut self, now_us: u64, srtt_us: u32, packets: u32, limited: bool) {
        let coupling = Arc::clone(&self.coupling);
        let mut shared = coupling.lock();
        let ack = tp_ack {
            now_us,
            acked: packets,
            srtt_us,
            min_rtt_us: u32::MAX,
            ..tp_ack::default()
        };
        let (table, own) = self.own(&mut shared);
        let window = &mut self.window;
        // SAFETY: `own` points into `*table`, which the lock keeps for this thread. The functions are pure
        // arithmetic in C on their arguments, and keep none of the pointers.
        unsafe {
            tp_refresh(table, own, now_us, window.packets, srtt_us);
            if limited {
                match &mut self.private {
                    Private::Lia(state) => lia_grow(state, window, &ack, own, table),
                    Private::Olia(state) => olia_grow(state, window, &ack, own, table),
                    Private::Balia(state) => balia_grow(state, window, &ack, own, table),
                }
            }
        }
    }

    /// Congestion, at most once in a round trip: sets the threshold, and the window to it.
    pub fn lose(&mut self) {
        self.before_loss = Some(self.window);
        let coupling = Arc::clone(&self.coupling);
        let mut shared = coupling.lock();
        let packets = self.window.packets;
        let (table, own) = self.own(&mut shared);
        // SAFETY: as above.
        let kept = unsafe {
            match &mut self.private {
                Private::Lia(_) => tp_half(packets),
                Private::Olia(state) => olia_threshold(state, packets),
                Private::Balia(_) => balia_kept(table, own, packets),
            }
        };
        self.window.ssthresh = kept;
        self.window.credit = 0;
        self.put(&mut shared, kept);
    }

    /// Everything sent for a long time was lost (RFC 9002, section 7.6): sets the least window.
    pub fn collapse(&mut self) {
        let coupling = Arc::clone(&self.coupling);
        self.put(&mut coupling.lock(), TP_CWND_MIN);
    }

    /// Packets taken for lost have arrived after all: restores window and threshold from before.
    pub fn undo(&mut self) {
        if let Some(before) = self.before_loss.take() {
            self.window.ssthresh = before.ssthresh;
            let packets = self.window.packets.max(before.packets);
            let coupling = Arc::clone(&self.coupling);
            self.put(&mut coupling.lock(), packets);
        }
    }

    /// Sets the window, and tells the other paths at once: the next acknowledgement may come late or never.
    fn put(&mut self, shared: &mut Shared, packets: u32) {
        self.window.packets = packets;
        let (_, own) = self.own(shared);
        // SAFETY: as above.
        unsafe { (*own).cwnd = packets };
    }

    /// The connection's table, and this path's entry in it.
    fn own(&self, shared: &mut Shared) -> (*mut tp_coupled, *mut tp_subflow) {
        let table = &raw mut shared.table;
        // SAFETY: only addresses within the table are made; `place` is below PLACES where it is used.
        let own = unsafe {
            if self.place < PLACES {
                &raw mut (*table).sub[self.place]
            } else {
                &raw mut (*table).guest
            }
        };
        (table, own)
    }
}

impl Drop for CoupledPath {
    fn drop(&mut self) {
        let mut shared = self.coupling.lock();
        let entry = shared.table.sub.get_mut(self.place);
        if let Some(entry) = entry.filter(|entry| entry.id == self.id) {
            *entry = tp_subflow::default();
        }
    }
}
