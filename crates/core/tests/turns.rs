//! Credits of the fair queues: which one may send next.

use proptest::prelude::*;
use tcpilot_core::watch::{ants_credit, credit_at_leave};

const BURST: i64 = 16 * 1514;
const FULL: u32 = 1514;

/// Bytes of ants and of others that leave if both always have a packet waiting, and ants go first as
/// long as their credit is above 0.
fn share(ant_bytes: u32, other_bytes: u32, packets: u32) -> (u64, u64) {
    let (mut credit, mut ants, mut others) = (BURST, 0, 0);
    for _ in 0..packets {
        let is_ants = credit > 0;
        let bytes = if is_ants { ant_bytes } else { other_bytes };
        *(if is_ants { &mut ants } else { &mut others }) += u64::from(bytes);
        credit = ants_credit(credit, bytes, i32::from(is_ants));
    }
    (ants, others)
}

#[test]
fn ants_send_a_burst_before_others() {
    let mut credit = BURST;
    let mut sent = 0;
    while credit > 0 {
        credit = ants_credit(credit, FULL, 1);
        sent += i64::from(FULL);
    }
    assert_eq!(sent, BURST);
}

#[test]
fn small_packets_of_ants_cost_their_bytes() {
    assert_eq!(ants_credit(BURST, 100, 1), BURST - 100);
    assert_eq!(ants_credit(BURST - 100, FULL, 0), BURST);
}

#[test]
fn debt_is_kept_but_unused_credit_lost() {
    assert_eq!(credit_at_leave(-4000), -4000);
    assert_eq!(credit_at_leave(4000), 0);
}

proptest! {
    #[test]
    fn endless_ants_get_half_of_the_bytes(
        ant in 64_u32..=1514,
        other in 64_u32..=1514,
    ) {
        let (ants, others) = share(ant, other, 100_000);
        let apart = (ants as f64 - others as f64).abs();
        prop_assert!(apart <= 2.0 * BURST as f64, "{ants} and {others}");
    }

    #[test]
    fn credit_stays_within_a_burst(start in -BURST..=BURST, bytes in 0_u32..=65_536, is_ants in 0..=1) {
        let credit = ants_credit(start, bytes, is_ants);
        prop_assert!((-BURST..=BURST).contains(&credit));
    }
}
