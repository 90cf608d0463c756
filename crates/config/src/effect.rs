//! `[effect]`: how tcpilot measures whether it helps, and when it stops because it harms.

use super::settings::settings;
use super::values::HoldOut;

settings! {
    /// `[effect]`: the hold-out, for comparison with steered connections. For the learner thompson only.
    Effect {
        /// Percent of the connections in the hold-out: no choice, no rescue, no tuning. You give up this much of
        /// the gain in order to know the gain. 0 switches this off, and the guard with it.
        hold_out_percent: u32 = 5, 0..=50;
        /// How connections are held out. "prefix": whole groups of addresses (/24, or /48 of IPv6) for a week, then
        /// other groups. "block": each group for a block of time, drawn at random, next to a steered block. "host":
        /// as "block", but all groups at once; only this is fair if all of them share one queue. "auto": "host" if
        /// a queue of this host is often full, else "prefix" from 64 groups on, else "block".
        hold_out: HoldOut = HoldOut::Auto;
        /// Seconds of a block. Two blocks, one held out and one not, are a pair.
        block_s: u32 = 300, 1..=86400;
        /// Seconds at each end of a block. Connections that open there do not count: they share queues with the
        /// block before or after. Longer than most connections last; less than half a block.
        settle_s: u32 = 30, 0..=3600;
        /// With "prefix": seconds between two changes of the held-out groups.
        rotation_s: u32 = 604800, 1..=31536000;
        /// Minimum of connections of 16 KiB or more in each block of a pair.
        connections_min: u32 = 5, 1..=10000;
        /// Loss of goodput, in percent, at which steering stops for a group or the host. The loss has to be
        /// shown: the whole interval must lie beyond it. 0: steering never stops.
        guard_percent: u32 = 2, 0..=100;
        /// Seconds after the first stop until tcpilot tries to steer again. Each further stop is twice as
        /// long, up to a week.
        guard_pause_s: u32 = 21600, 1..=604800;
    }
}
