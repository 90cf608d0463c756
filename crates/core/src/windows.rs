//! Window-based congestion controls with a threshold (`bpf/cc/*.h`), on a deterministic path.

use crate::cc::*;

/// No threshold yet: slow start.
pub const NO_SSTHRESH: u32 = TP_SSTHRESH_MAX;
/// Nothing is lost.
pub const OPEN: u8 = TP_STATE_OPEN as u8;
/// Repairing a loss.
pub const RECOVERY: u8 = 3;
/// After a time-out.
pub const LOSS: u8 = TP_STATE_LOSS as u8;

/// The pure functions of an algorithm, as methods of its state; those it lacks do nothing.
pub trait Control: Default {
    /// A connection begins.
    fn begin(&mut self, _ack: &tp_ack) {}
    /// The kernel's state machine enters a state.
    fn enter(&mut self, _ack: &tp_ack, _state: u8, _window: &tp_cwnd) {}
    /// An RTT sample, and the packets acknowledged with it; a negative RTT is none.
    fn sample(&mut self, _rtt_us: i32, _packets: u32, _now_us: u64) {}
    /// An acknowledgement while the window limits the sender.
    fn grow(&mut self, window: &mut tp_cwnd, ack: &tp_ack);
    /// Congestion: the threshold.
    fn threshold(&mut self, window: &tp_cwnd) -> u32;
    /// A loss has been repaired.
    fn repaired(&mut self, _window: &mut tp_cwnd) {}
    /// The retransmission timer has expired.
    fn timed_out(&mut self, _window: &mut tp_cwnd) {}
}

macro_rules! method {
    (begin $f:ident) => {
        fn begin(&mut self, ack: &tp_ack) {
            // SAFETY: a pure function, and pointers to live values; so below.
            unsafe { $f(self, ack) }
        }
    };
    (enter $f:ident) => {
        fn enter(&mut self, ack: &tp_ack, state: u8, window: &tp_cwnd) {
            // SAFETY: as above.
            unsafe { $f(self, ack, state, window) }
        }
    };
    (sample $f:ident) => {
        fn sample(&mut self, rtt_us: i32, packets: u32, now_us: u64) {
            // SAFETY: as above.
            unsafe { $f(self, rtt_us, packets, now_us) }
        }
    };
    (grow $f:ident) => {
        fn grow(&mut self, window: &mut tp_cwnd, ack: &tp_ack) {
            // SAFETY: as above.
            unsafe { $f(self, window, ack) }
        }
    };
    (threshold $f:ident) => {
        fn threshold(&mut self, window: &tp_cwnd) -> u32 {
            // SAFETY: as above.
            unsafe { $f(self, window) }
        }
    };
}

macro_rules! control {
    ($state:ident: $($method:ident $f:ident),*) => {
        impl Control for $state {
            $(method!($method $f);)*
        }
    };
}

control!(tp_bic: begin bic_begin, enter bic_enter, grow bic_grow, threshold bic_threshold);
control!(tp_hstcp: begin hstcp_begin, grow hstcp_grow, threshold hstcp_threshold);
control!(tp_hybla: begin hybla_begin, enter hybla_enter, grow hybla_grow, threshold hybla_threshold);
control!(tp_illinois: begin illinois_begin, enter illinois_enter, sample illinois_sample,
    grow illinois_grow, threshold illinois_threshold);
control!(tp_vegas: begin vegas_begin, enter vegas_enter, sample vegas_sample, grow vegas_grow,
    threshold vegas_threshold);
control!(tp_veno: begin veno_begin, sample veno_sample, grow veno_grow, threshold veno_threshold);
control!(tp_yeah: begin yeah_begin, enter yeah_enter, sample yeah_sample, grow yeah_grow,
    threshold yeah_threshold);

/// The `packets` of its samples count all deliveries since the connection began.
impl Control for tp_westwood {
    fn begin(&mut self, ack: &tp_ack) {
        // SAFETY: as above.
        unsafe { westwood_begin(self, ack.now_us, 0) }
    }
    fn repaired(&mut self, window: &mut tp_cwnd) {
        // SAFETY: as above.
        unsafe { westwood_repaired(self, window) }
    }
    fn timed_out(&mut self, window: &mut tp_cwnd) {
        // SAFETY: as above.
        unsafe { westwood_timed_out(self, window) }
    }
    method!(sample westwood_sample);
    method!(grow westwood_grow);
    method!(threshold westwood_threshold);
}

/// A connection under a congestion control. Sequence numbers count packets.
pub struct Connection<C> {
    control: C,
    /// The window.
    pub w: tp_cwnd,
    /// The content of the next acknowledgement.
    pub ack: tp_ack,
}

impl<C: Control> Connection<C> {
    /// A connection with this window, in congestion avoidance.
    pub fn new(packets: u32) -> Self {
        let ack = tp_ack {
            now_us: 1_000_000,
            nxt: packets,
            min_rtt_us: u32::MAX,
            ..tp_ack::default()
        };
        let w = tp_cwnd {
            packets,
            credit: 0,
            ssthresh: packets,
            clamp: u32::MAX,
        };
        let mut control = C::default();
        control.begin(&ack);
        Connection { control, w, ack }
    }

    /// The kernel's state machine enters a state.
    pub fn enter(&mut self, state: u8) {
        self.control.enter(&self.ack, state, &self.w);
    }

    /// An RTT sample; negative: none.
    pub fn sample(&mut self, rtt_us: i32, packets: u32) {
        self.control.sample(rtt_us, packets, self.ack.now_us);
    }

    /// An acknowledgement of so many packets.
    pub fn acknowledge(&mut self, acked: u32) {
        self.ack.acked = acked;
        self.ack.una = self.ack.una.wrapping_add(acked);
        self.ack.nxt = self.ack.una.wrapping_add(self.w.packets);
        self.control.grow(&mut self.w, &self.ack);
    }

    /// One window, acknowledged packet by packet, each with this RTT.
    pub fn round(&mut self, rtt_us: u32) {
        self.round_by(rtt_us, 1);
    }

    /// One window, acknowledged by so many packets at a time, and the rest of it at the end.
    pub fn round_by(&mut self, rtt_us: u32, packets: u32) {
        self.ack.srtt_us = rtt_us;
        let mut left = self.w.packets;
        while left > 0 {
            let acked = left.min(packets);
            self.sample(i32::try_from(rtt_us).unwrap_or(i32::MAX), acked);
            self.acknowledge(acked);
            left -= acked;
        }
        self.ack.now_us += u64::from(rtt_us);
    }

    /// The threshold after a loss now.
    pub fn threshold(&mut self) -> u32 {
        self.control.threshold(&self.w)
    }

    /// A loss has been repaired.
    pub fn repair(&mut self) {
        self.control.repaired(&mut self.w);
    }

    /// The retransmission timer expires.
    pub fn time_out(&mut self) {
        self.control.timed_out(&mut self.w);
    }

    /// A loss, repaired at once.
    pub fn lose(&mut self) {
        self.w.ssthresh = self.threshold();
        self.w.packets = self.w.ssthresh;
        self.enter(RECOVERY);
        self.enter(OPEN);
    }
}
