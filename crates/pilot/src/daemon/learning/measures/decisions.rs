//! The last decisions of a path, each in seven bytes.

use tcpilot_abi::Why;
use tcpilot_learner::bytes::{Reader, Writer};

/// Maximum number of decisions kept for a path.
pub const MOST: usize = 8;

/// Bits of the fields of a decision, from the lowest.
const TIME: u32 = 27;
const ARM: u32 = 4;
const WHY: u32 = 5;
const DRY_RUN: u32 = 1;
const END: u32 = 2;
const GOODPUT: u32 = 9;
const RESENT: u32 = 8;
const BYTES: usize = 7;

/// How a connection ended, or whether it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// By close or reset.
    Closed = 0,
    /// Nothing came back any more.
    TimedOut = 1,
    /// It was open when its last sample was taken.
    Open = 2,
    /// It went on with another algorithm.
    Switched = 3,
}

impl End {
    const ALL: [End; 4] = [End::Closed, End::TimedOut, End::Open, End::Switched];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            End::Closed => "closed",
            End::TimedOut => "timed-out",
            End::Open => "open",
            End::Switched => "switched",
        }
    }
}

/// A choice, and its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// When, in whole seconds since 1970; known modulo 2^27 seconds (four years).
    pub at_s: u64,
    /// The learner's number of the algorithm; `None` if it has none.
    pub arm: Option<usize>,
    /// The reason.
    pub why: Why,
    /// Whether nothing was set.
    pub dry_run: bool,
    /// How the connection ended.
    pub end: End,
    /// Bytes per second while data was under way, within 2.1 %.
    pub goodput: Option<u64>,
    /// Segments sent again over segments sent, within 2.3 %; at least 10⁻⁵ unless it is 0.
    pub resent: Option<f64>,
}

/// The decisions of a path, the newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions([[u8; BYTES]; MOST]);

/// A scale of `steps` numbers from `low` to `high`, each the same part above the last.
struct Scale {
    low: f64,
    high: f64,
    steps: u64,
}

const GOODPUTS: Scale = Scale {
    low: 128.0,
    high: 137_438_953_472.0, // 2^37, 1.1 Tbit/s
    steps: (1 << GOODPUT) - 1,
};
/// The last code stands for an unknown share.
const SHARES: Scale = Scale {
    low: 1e-5,
    high: 1.0,
    steps: (1 << RESENT) - 2,
};
const UNKNOWN: u64 = (1 << RESENT) - 1;

impl Scale {
    /// A code from 1 to `steps`; 0 for 0.
    fn code(&self, number: f64) -> u64 {
        if number <= 0.0 {
            return 0;
        }
        let part = (number / self.low).ln() / (self.high / self.low).ln();
        1 + (part.clamp(0.0, 1.0) * (self.steps - 1) as f64).round() as u64
    }

    fn number(&self, code: u64) -> f64 {
        match code.checked_sub(1) {
            None => 0.0,
            Some(step) => {
                let part = step as f64 / (self.steps - 1) as f64;
                self.low * (self.high / self.low).powf(part)
            }
        }
    }
}

/// Takes the lowest bits away.
fn take(bits: &mut u64, count: u32) -> u64 {
    let low = *bits & ((1 << count) - 1);
    *bits >>= count;
    low
}

impl Decision {
    /// The code of the algorithm: 0 marks an empty place, 1 no algorithm.
    fn arm_code(&self) -> u64 {
        self.arm.map_or(1, |arm| 2 + arm.min(7) as u64)
    }

    fn packed(&self) -> [u8; BYTES] {
        let fields = [
            (self.at_s & ((1 << TIME) - 1), TIME),
            (self.arm_code(), ARM),
            (self.why as u64, WHY),
            (u64::from(self.dry_run), DRY_RUN),
            (self.end as u64, END),
            (GOODPUTS.code(self.goodput.unwrap_or(0) as f64), GOODPUT),
            (
                self.resent.map_or(UNKNOWN, |share| SHARES.code(share)),
                RESENT,
            ),
        ];
        let (mut bits, mut from) = (0, 0);
        for (field, count) in fields {
            bits |= field << from;
            from += count;
        }
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&u64::to_le_bytes(bits)[..BYTES]);
        bytes
    }

    /// `None` for an empty place.
    fn unpacked(bytes: &[u8; BYTES], now_s: u64) -> Option<Decision> {
        let mut bits = bits_of(bytes);
        let time = take(&mut bits, TIME);
        let arm = take(&mut bits, ARM).checked_sub(1)?;
        let why = take(&mut bits, WHY) as u8;
        let dry_run = take(&mut bits, DRY_RUN) == 1;
        let end = End::ALL[take(&mut bits, END) as usize];
        let goodput = take(&mut bits, GOODPUT);
        let resent = take(&mut bits, RESENT);
        let age_s = now_s.wrapping_sub(time) & ((1 << TIME) - 1);
        Some(Decision {
            at_s: now_s.saturating_sub(age_s),
            arm: arm.checked_sub(1).map(|arm| arm as usize),
            why: Why::from_number(why),
            dry_run,
            end,
            goodput: (goodput > 0).then(|| GOODPUTS.number(goodput).round() as u64),
            resent: (resent != UNKNOWN).then(|| SHARES.number(resent)),
        })
    }
}

fn bits_of(bytes: &[u8; BYTES]) -> u64 {
    let mut all = [0; 8];
    all[..BYTES].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

/// The identity of a decision: time, algorithm, reason.
fn identity(bytes: &[u8; BYTES]) -> u64 {
    bits_of(bytes) & ((1 << (TIME + ARM + WHY + DRY_RUN)) - 1)
}

fn is_open(bytes: &[u8; BYTES]) -> bool {
    bits_of(bytes) >> (TIME + ARM + WHY + DRY_RUN) & 3 == End::Open as u64
}

impl Decisions {
    /// Adds a decision. If it was seen before, while its connection was open, this is its new result.
    pub fn add(&mut self, decision: &Decision) {
        let packed = decision.packed();
        let is_it = |old: &[u8; BYTES]| is_open(old) && identity(old) == identity(&packed);
        match self.0.iter_mut().find(|old| is_it(old)) {
            Some(old) => *old = packed,
            None => {
                self.0.rotate_right(1);
                self.0[0] = packed;
            }
        }
    }

    /// The decisions, the newest first.
    pub fn all(&self, now_s: u64) -> Vec<Decision> {
        let all = self.0.iter();
        let mut all: Vec<Decision> = all
            .filter_map(|one| Decision::unpacked(one, now_s))
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.at_s));
        all
    }

    pub fn write(&self, to: &mut Writer) {
        self.0.iter().for_each(|one| {
            to.u64(bits_of(one));
        });
    }

    pub fn read(from: &mut Reader<'_>) -> Option<Decisions> {
        let mut all = Decisions::default();
        for one in &mut all.0 {
            one.copy_from_slice(&from.u64()?.to_le_bytes()[..BYTES]);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_S: u64 = 1_790_000_000;

    fn decision(at_s: u64, end: End) -> Decision {
        Decision {
            at_s,
            arm: Some(1),
            why: Why::Drawn,
            dry_run: false,
            end,
            goodput: Some(1_000_000),
            resent: Some(0.0),
        }
    }

    fn is_near(read: f64, is: f64, within: f64) -> bool {
        (read / is - 1.0).abs() < within
    }

    proptest! {
        #[test]
        fn a_decision_survives_seven_bytes(
            age_s in 0u64..1 << TIME, arm in prop::option::of(0usize..8), why in 0usize..Why::ALL.len(),
            dry_run: bool, end in 0usize..4, goodput in prop::option::of(128u64..100_000_000_000),
            resent in prop::option::of(1e-5..1.0),
        ) {
            let made = Decision {
                at_s: NOW_S - age_s, arm, why: Why::ALL[why], dry_run, end: End::ALL[end], goodput, resent,
            };
            let read = Decision::unpacked(&made.packed(), NOW_S).unwrap();
            prop_assert_eq!(Decision { goodput, resent, ..read }, made);
            match (read.goodput, goodput) {
                (Some(read), Some(is)) => prop_assert!(is_near(read as f64, is as f64, 0.025), "{read} {is}"),
                (read, is) => prop_assert_eq!(read, is),
            }
            match (read.resent, resent) {
                (Some(read), Some(is)) => prop_assert!(is_near(read, is, 0.025), "{read} {is}"),
                (read, is) => prop_assert_eq!(read, is),
            }
        }
    }

    #[test]
    fn the_last_eight_are_kept_newest_first() {
        let mut all = Decisions::default();
        assert_eq!(all.all(NOW_S), []);
        for at_s in NOW_S - 10..NOW_S {
            all.add(&decision(at_s, End::Closed));
        }
        let times: Vec<u64> = all.all(NOW_S).iter().map(|one| one.at_s).collect();
        let last: Vec<u64> = (NOW_S - 8..NOW_S).rev().collect();
        assert_eq!(times, last);
    }

    #[test]
    fn an_open_connection_keeps_its_place() {
        let mut all = Decisions::default();
        all.add(&decision(NOW_S - 9, End::Open));
        all.add(&decision(NOW_S - 5, End::Closed));
        all.add(&decision(NOW_S - 9, End::Open));
        all.add(&decision(NOW_S - 9, End::TimedOut));
        let ends: Vec<End> = all.all(NOW_S).iter().map(|one| one.end).collect();
        assert_eq!(ends, [End::Closed, End::TimedOut]);
        all.add(&decision(NOW_S - 9, End::Closed));
        assert_eq!(all.all(NOW_S).len(), 3, "a second one of that time");
    }

    #[test]
    fn none_and_nothing_sent_again_differ() {
        let read = |resent| {
            let made = Decision {
                resent,
                goodput: None,
                ..decision(NOW_S, End::Closed)
            };
            Decision::unpacked(&made.packed(), NOW_S).unwrap()
        };
        assert_eq!(read(Some(0.0)).resent, Some(0.0));
        assert_eq!((read(None).resent, read(None).goodput), (None, None));
    }
}
