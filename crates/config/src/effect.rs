//! `[effect]`: how tcpilot measures whether it helps, and when it stops because it harms.

use super::settings::settings;
use super::values::HoldOut;

settings! {
    /// `[effect]`: the hold-out, for comparison with steered connections. For the learner thompson only.
    Effect {
        /// Percent of connections in the hold-out: no choice, no rescue, no tuning; and with `[fleet]` percent of sites (/16,
        /// /32) held back from the fleet. 0 switches this off, and the guard with it.
        hold_out_percent: u32 = 5, 0..=50;
        /// How connections are held out: "prefix", "block", "host", or "auto" (docs/use/report.md).
        hold_out: HoldOut = HoldOut::Auto;
        /// Seconds of a block. Two blocks, one held out and one not, are a pair.
        block_s: u32 = 300, 1..=86400;
        /// Seconds at each end of a block without counted openings. Longer than most connections last; less than
        /// half a block.
        settle_s: u32 = 30, 0..=3600;
        /// Seconds between two changes of the held-out groups, with "prefix", and of the sites held back from the fleet.
        rotation_s: u32 = 604800, 1..=31536000;
        /// Minimum of connections of 16 KiB or more in each block of a pair.
        connections_min: u32 = 5, 1..=10000;
        /// Shown loss of goodput, in percent, at which steering stops for a group or the host. 0: never.
        guard_percent: u32 = 2, 0..=100;
        /// Seconds after the first stop until tcpilot steers again. Each further stop is twice as long, up to a
        /// week.
        guard_pause_s: u32 = 21600, 1..=604800;
    }
}
