//! The kernel's tick, its unit for some times of a connection. No file gives its length.

use std::time::Duration;

use libbpf_rs::{ProgramInput, ProgramMut};
use tcpilot_abi::{from_bytes, to_bytes, tp_clocks};

use crate::{Error, object::map_error};

/// Long enough to distinguish 250 ticks a second from 300.
pub(super) const TICKS_OVER: Duration = Duration::from_millis(100);

pub(super) fn read_clocks(program: &ProgramMut<'_>) -> Result<tp_clocks, Error> {
    let action = "read the kernel's clocks";
    let mut clocks = to_bytes(&tp_clocks::default()).to_vec();
    let input = ProgramInput {
        context_in: Some(&mut clocks),
        ..Default::default()
    };
    program.test_run(input).map_err(map_error(action))?;
    from_bytes(&clocks).ok_or(Error::System {
        action,
        source: std::io::ErrorKind::InvalidData.into(),
    })
}

/// Ticks per second. A kernel is built with one of a few values (time(7)): this takes the nearest
/// to the measurement.
pub(super) fn ticks_per_s(from: &tp_clocks, to: &tp_clocks) -> u32 {
    let ns = to.now_ns.saturating_sub(from.now_ns).max(1);
    let seen = to
        .ticks
        .saturating_sub(from.ticks)
        .saturating_mul(1_000_000_000)
        / ns;
    let seen = u32::try_from(seen).unwrap_or(u32::MAX);
    [100, 250, 300, 1000]
        .into_iter()
        .min_by_key(|tick: &u32| tick.abs_diff(seen))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_rate_is_nearest_kernel_config_value() {
        let clocks = |ticks, now_ns| tp_clocks { ticks, now_ns };
        let start = clocks(1_000_000, 5_000_000_000);
        for (ticks, ms, expected) in [
            (10, 100, 100),
            (24, 100, 250),
            (26, 100, 250),
            (30, 101, 300),
            (99, 100, 1000),
            (750, 3001, 250),
        ] {
            let end = clocks(start.ticks + ticks, start.now_ns + ms * 1_000_000);
            assert_eq!(ticks_per_s(&start, &end), expected, "{ticks} in {ms} ms");
        }
    }
}
