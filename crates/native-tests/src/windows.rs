//! Congestion controls that grow a window and choose a threshold (`bpf/cc/*.h`), and a path without
//! chance to run them on.

/// `struct tp_cwnd` of bpf/lib/cwnd.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "described at its C original")]
pub struct Cwnd {
    pub packets: u32,
    pub credit: u32,
    pub ssthresh: u32,
    pub clamp: u32,
}

/// `struct tp_ack` of bpf/lib/cwnd.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "described at its C original")]
pub struct Ack {
    pub now_us: u64,
    pub acked: u32,
    pub una: u32,
    pub nxt: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
}

/// The bytes that the kernel gives each connection.
type Private = [u64; 13];

/// The functions of an algorithm: `struct native_control`.
#[repr(C)]
pub struct Control {
    begin: unsafe extern "C" fn(&mut Private, &Ack),
    enter: unsafe extern "C" fn(&mut Private, &Ack, u8, &Cwnd),
    sample: unsafe extern "C" fn(&mut Private, i32, u32, u64),
    grow: unsafe extern "C" fn(&mut Private, &mut Cwnd, &Ack),
    threshold: unsafe extern "C" fn(&mut Private, &Cwnd) -> u32,
}

mod c {
    use super::Control;

    #[rustfmt::skip]
    #[allow(missing_docs, reason = "described at their C originals")]
    unsafe extern "C" {
        pub safe static native_bic: Control;
        pub safe static native_hstcp: Control;
        pub safe static native_hybla: Control;
        pub safe static native_illinois: Control;
        pub safe static native_vegas: Control;
        pub safe static native_veno: Control;
        pub safe static native_westwood: Control;
        pub safe static native_yeah: Control;
        pub safe fn native_hstcp_a(packets: u32) -> u32;
        pub safe fn native_hybla_rho(rtt_us: u32) -> u32;
        pub safe fn native_hybla_exp2(x: u32) -> u32;
        pub safe fn native_illinois_hyperbola(da: u32, dm: u32) -> u32;
        pub safe fn native_illinois_beta(da: u32, dm: u32) -> u32;
        pub safe fn native_bic_per(max: u32, packets: u32) -> u32;
        pub safe fn native_queued(packets: u32, rtt_us: u32, base_us: u32) -> u32;
    }
}

pub use c::{
    native_bic as BIC, native_bic_per as bic_per, native_hstcp as HSTCP, native_hstcp_a as hstcp_a,
    native_hybla as HYBLA, native_hybla_exp2 as hybla_exp2, native_hybla_rho as hybla_rho,
    native_illinois as ILLINOIS, native_illinois_beta as illinois_beta,
    native_illinois_hyperbola as illinois_hyperbola, native_queued as queued,
    native_vegas as VEGAS, native_veno as VENO, native_westwood as WESTWOOD, native_yeah as YEAH,
};

/// No threshold yet: slow start.
pub const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Nothing is lost.
pub const OPEN: u8 = 0;
/// Repairing a loss.
pub const RECOVERY: u8 = 3;
/// After a time-out.
pub const LOSS: u8 = 4;

/// A connection under a congestion control. Sequence numbers count packets.
pub struct Connection {
    control: &'static Control,
    private: Private,
    /// The window.
    pub w: Cwnd,
    /// What the next acknowledgement will say.
    pub ack: Ack,
}

impl Connection {
    /// With this window, in congestion avoidance.
    pub fn new(control: &'static Control, packets: u32) -> Connection {
        let ack = Ack {
            now_us: 1_000_000,
            nxt: packets,
            min_rtt_us: u32::MAX,
            ..Ack::default()
        };
        let w = Cwnd {
            packets,
            credit: 0,
            ssthresh: packets,
            clamp: u32::MAX,
        };
        let mut made = Connection {
            control,
            private: Private::default(),
            w,
            ack,
        };
        // SAFETY: all algorithms keep their state in these bytes, which are aligned for it.
        unsafe { (control.begin)(&mut made.private, &ack) };
        made
    }

    /// The kernel's state machine enters a state.
    pub fn enter(&mut self, state: u8) {
        // SAFETY: as in new.
        unsafe { (self.control.enter)(&mut self.private, &self.ack, state, &self.w) };
    }

    /// An RTT sample; negative: none.
    pub fn sample(&mut self, rtt_us: i32, count: u32) {
        // SAFETY: as in new.
        unsafe { (self.control.sample)(&mut self.private, rtt_us, count, self.ack.now_us) };
    }

    /// An acknowledgement of so many packets.
    pub fn acknowledge(&mut self, acked: u32) {
        self.ack.acked = acked;
        self.ack.una = self.ack.una.wrapping_add(acked);
        self.ack.nxt = self.ack.una.wrapping_add(self.w.packets);
        // SAFETY: as in new.
        unsafe { (self.control.grow)(&mut self.private, &mut self.w, &self.ack) };
    }

    /// One window, acknowledged packet by packet, each with this RTT.
    pub fn round(&mut self, rtt_us: u32) {
        self.ack.srtt_us = rtt_us;
        for _ in 0..self.w.packets {
            self.sample(i32::try_from(rtt_us).unwrap_or(i32::MAX), 1);
            self.acknowledge(1);
        }
        self.ack.now_us += u64::from(rtt_us);
    }

    /// The threshold after a loss now.
    pub fn threshold(&mut self) -> u32 {
        // SAFETY: as in new.
        unsafe { (self.control.threshold)(&mut self.private, &self.w) }
    }

    /// A loss that is repaired at once.
    pub fn lose(&mut self) {
        self.w.ssthresh = self.threshold();
        self.w.packets = self.w.ssthresh;
        self.enter(RECOVERY);
        self.enter(OPEN);
    }
}
