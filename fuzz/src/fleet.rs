//! What hosts of a fleet say to each other.

use tcpilot_fleet::{State, format, manifest};
use tcpilot_learner::{Settings, Thompson, learner::Facts};

/// A state if the first byte is even, and a manifest if it is odd; the rest are its bytes without the check sum, which
/// no fuzzer finds. Bytes that can be read must be written again as they were, and a learner can hear each state.
pub fn fleet(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let _ = (
        format::decode(body, format::ROWS_MAX),
        manifest::decode(body),
    );
    let bytes = [body, &format::check_sum(body).to_le_bytes()].concat();
    if kind & 1 == 1 {
        if let Ok(manifest) = manifest::decode(&bytes) {
            assert_eq!(manifest::encode(&manifest), bytes);
        }
    } else if let Ok(state) = format::decode(&bytes, format::ROWS_MAX) {
        assert_eq!(format::encode(&state), bytes);
        hear(&state);
    }
}

fn hear(state: &State) {
    let arms = state.algorithms().len();
    let mut learner = Thompson::new(arms, Settings::default()).expect("two to eight algorithms");
    learner.use_foreign(true);
    for at_s in [0.0, 600.0] {
        learner.begin_hearing(at_s);
        for row in state.rows() {
            let bouts = row.losses.bouts(1.0);
            let facts = Facts {
                bouts,
                ..Facts::default()
            };
            let key = row.group.key();
            learner.hear(&key, row.said.numbers(), 1.0, facts, at_s);
        }
        learner.end_hearing();
        for group in learner.foreign_groups().collect::<Vec<_>>() {
            let plan = learner
                .plan_of(&group, at_s)
                .expect("a group that was heard");
            let sum: f64 = plan.shares.iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{plan:?}");
        }
    }
    assert_eq!(learner.rebuilt(), 0, "sums lost their digits");
}
