//! A flow whose rounds a test chooses.

use tcpilot_abi::{
    TP_FEATURES, TP_GROUP_DELAY, TP_GROUP_LOSS, TP_GROUP_MOUSE, TP_NO_CLASS, tp_model, tp_node,
    tp_round, tp_shape, tp_verdict, zeroed,
};
use tcpilot_core::model::FEATURES;
use tcpilot_core::watch::{classify, features, shape_round};

pub const SEGMENT: u32 = 1000;

/// The place of a feature.
fn place(name: &str) -> usize {
    let place = FEATURES.iter().take_while(|known| **known != name).count();
    assert!(place < FEATURES.len(), "{name}");
    place
}

/// A flow under test: 50 ms of path, a queue of 100 ms at most.
pub struct Flow {
    pub shape: tp_shape,
    pub verdict: tp_verdict,
    pub model: Box<tp_model>,
    pub round: tp_round,
}

/// One tree: class 0 (loss) with more than 43 % of its window in the queue, else class 1 (delay).
pub fn model(sure: u8) -> Box<tp_model> {
    let mut model = zeroed::<tp_model>();
    (model.trees, model.classes) = (1, 2);
    model.group[0] = TP_GROUP_LOSS as u8;
    model.group[1] = TP_GROUP_DELAY as u8;
    model.node[0] = tp_node {
        threshold: 110, // of 256
        child: 1,
        feature: place("own_of_window") as u8,
        is_leaf: 0,
    };
    for leaf in 0..2 {
        model.node[1 + leaf].is_leaf = 1;
        model.node[1 + leaf].child = leaf as u16;
    }
    (model.leaf[0][1], model.leaf[0][0]) = (sure, 255 - sure);
    (model.leaf[1][0], model.leaf[1][1]) = (sure, 255 - sure);
    model
}

impl Flow {
    pub fn new() -> Flow {
        Flow {
            shape: tp_shape::default(),
            verdict: tp_verdict {
                name: TP_NO_CLASS as u8,
                ..Default::default()
            },
            model: model(255),
            round: tp_round {
                min_rtt_us: 50_000,
                rtt_us: 50_000,
                duration_us: 50_000,
                segment_bytes: SEGMENT,
                link_queue_us: 100_000,
                acks: 10,
                in_packets: 20,
                ..Default::default()
            },
        }
    }

    /// A round with this window and queue.
    pub fn round(&mut self, window: u32, queue_us: u32, lost: u32) {
        let round = &mut self.round;
        round.number += 1;
        round.flight_max_bytes = window * SEGMENT;
        round.in_bytes = window * SEGMENT;
        round.sojourn_mean_us = queue_us;
        round.sojourn_max_us = queue_us;
        round.rtt_us = 50_000 + queue_us;
        round.dropped_packets = lost;
        round.again_packets = lost;
        shape_round(&mut self.shape, round);
        classify(&mut self.verdict, &self.shape, round, &self.model);
    }

    pub fn start(&mut self) {
        for window in [10, 20, 40, 80] {
            self.round(window, 10_000, 0);
            assert_eq!(self.group(), TP_GROUP_MOUSE, "{window}");
        }
        self.round(160, 90_000, 10);
    }

    pub fn feature(&self, name: &str) -> i32 {
        self.features()[place(name)]
    }

    pub fn features(&self) -> [i32; TP_FEATURES as usize] {
        let mut found = [0; TP_FEATURES as usize];
        features(&self.shape, &self.round, &mut found);
        found
    }

    pub fn group(&self) -> u32 {
        u32::from(self.verdict.group)
    }

    pub fn reason(&self) -> u32 {
        u32::from(self.verdict.reason)
    }
}
