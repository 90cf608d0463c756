//! What the learner reads from the state file.

use std::sync::OnceLock;

use tcpilot_learner::{
    Learner as _, Level, Lineage, Observation, Outcome, Settings, Thompson, lineage::Class,
    regression::Features, reward::Reward, sharing::Bouts,
};

const ARMS: usize = 2;
/// A patch of a row: its number, the offset, and four bytes for there.
const PATCH: usize = 8;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn lineage(host: u8) -> Lineage {
    let class = Class {
        rtt_octave: Class::octave(40_000),
        ..Class::default()
    };
    let address = std::net::Ipv4Addr::new(198, 51, 100 + host / 4, host);
    Lineage::of(address.into(), class, 0)
}

fn seen(host: u8, arm: usize, at_s: f64) -> Observation {
    Observation {
        lineage: lineage(host),
        arm,
        outcome: Outcome::Reward(Reward {
            nats: 13.0 + arm as f64 / 8.0,
            weight: 1.0,
        }),
        features: Features {
            handshake_rtt_us: 40_000.0,
            bytes: 1e6,
            ..Features::default()
        },
        at_s,
        bouts: Bouts::CLEAR,
        segments: 700,
        since_last_s: None,
        is_switched: false,
        beside: 1,
    }
}

/// The rows of a learner with some paths.
fn saved() -> &'static Rows {
    static SAVED: OnceLock<Rows> = OnceLock::new();
    SAVED.get_or_init(|| {
        let mut learner = Thompson::new(ARMS, Settings::default()).expect("two arms");
        for step in 0..48_u8 {
            let one = seen(
                step % 8,
                usize::from(step / 8) % ARMS,
                f64::from(step) * 20.0,
            );
            learner.observe(&one).expect("an ordinary connection");
        }
        let mut rows = Rows::new();
        learner.save(true, |key, row| {
            rows.extend(row.map(|row| (key.to_vec(), row.to_vec())));
        });
        rows
    })
}

/// FNV-1a, the check sum behind a row.
fn check_sum(bytes: &[u8]) -> u32 {
    let step = |h: u32, byte: &u8| (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

/// Saved rows with other bytes at some places, and right check sums. The learner must go on learning, and its shares
/// must be probabilities.
pub fn rows(data: &[u8]) {
    let mut rows = saved().clone();
    for patch in data.chunks_exact(PATCH).take(8) {
        let [number, near, far, kind, bytes @ ..] = patch else {
            continue;
        };
        let number = usize::from(*number) % rows.len();
        let row = &mut rows[number].1;
        let Some(body @ 1..) = row.len().checked_sub(4) else {
            continue; // cut off by a patch before
        };
        let at = (usize::from(*far) << 8 | usize::from(*near)) % body;
        let end = body.min(at + bytes.len());
        row[at..end].copy_from_slice(&bytes[..end - at]);
        if kind % 16 == 1 {
            row.truncate(at);
        } else {
            let sum = check_sum(&row[..body]);
            row[body..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let now_s = 2000.0;
    let (mut learner, _) =
        Thompson::restore(ARMS, Settings::default(), rows, now_s).expect("two arms");
    for step in 0..8_u8 {
        let one = seen(step, usize::from(step) % ARMS, now_s + f64::from(step));
        let _ = learner.observe(&one);
    }
    for host in 0..8 {
        let plan = learner.plan(&lineage(host), now_s + 60.0);
        let sum: f64 = plan.shares.iter().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{plan:?}");
        assert!(
            plan.shares.iter().all(|share| (0.0..=1.0).contains(share)),
            "{plan:?}"
        );
        let _ = learner.view(&lineage(host).node(Level::ALL[0]), now_s + 61.0);
    }
}
