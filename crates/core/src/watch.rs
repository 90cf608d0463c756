//! The classifiers of `tcpilot watch`: `bpf/core/watch/p4air.h`, `shape.h`, `classify.h` and `light_tracking.h`; and the credits of
//! its fair queues, `bpf/core/turns.h` and `sparse.h`.

use tcpilot_abi::{TP_FEATURES, tp_model, tp_p4air, tp_round, tp_shape, tp_sparse, tp_verdict};

#[allow(missing_docs, reason = "described at their C originals")]
mod c {
    use super::*;

    unsafe extern "C" {
        pub safe fn native_ants_credit(credit: i64, bytes: u32, is_ants: i32) -> i64;
        pub safe fn native_credit_at_leave(credit: i64) -> i64;
        pub safe fn native_is_sparse(
            sparse: &mut tp_sparse,
            rate: u64,
            turn_bytes: u32,
            is_alone: i32,
            bytes: u32,
            now_ns: u64,
        ) -> i32;
        pub safe fn native_p4air_bdp_packets(
            link_rate: u64,
            long_flows: u32,
            rtt_us: u32,
            packet_bytes: u32,
        ) -> u32;
        pub safe fn native_p4air_interval(
            flow: &mut tp_p4air,
            packets: u32,
            dropped: u32,
            queue_us: u32,
            bdp_packets: u32,
        );
        pub safe fn native_mean_gap(mean_ns: u32, gap_ns: u32, packets: u32) -> u32;
        pub safe fn native_cubic_k_ms(lost_x16: u32) -> u32;
        pub safe fn native_cubic_window(origin: u32, after: u32, ms: u32, rounds: u32) -> i64;
        pub safe fn native_htcp_growth(since_us: u32, min_rtt_us: u32, response: u32) -> u32;
        pub safe fn native_illinois_growth(share: u32) -> u32;
        pub safe fn native_bic_growth(window: u32, before: u32) -> u32;
        pub safe fn native_highspeed_growth(window: u32) -> u32;
        pub safe fn native_quotient(a: i32, b: i32) -> i32;
        pub safe fn native_shape_round(shape: &mut tp_shape, round: &tp_round);
        pub safe fn native_features(
            shape: &tp_shape,
            round: &tp_round,
            features: &mut [i32; TP_FEATURES as usize],
        );
        pub safe fn native_may_track_lightly(
            verdict: &tp_verdict,
            shape: &tp_shape,
            round: &tp_round,
        ) -> i32;
        pub safe fn native_light_us(shape: &tp_shape, round: &tp_round) -> u32;
        pub safe fn native_shape_resumes(
            shape: &mut tp_shape,
            light_us: u32,
            rtt_us: u32,
            has_lost: i32,
            lost_us: u32,
        );
        pub safe fn native_classify(
            verdict: &mut tp_verdict,
            shape: &tp_shape,
            round: &tp_round,
            model: &tp_model,
        );
    }
}

/// Growth by the published laws: `bpf/core/watch/laws.h`.
pub mod laws {
    pub use super::c::{
        native_bic_growth as bic_growth, native_cubic_k_ms as cubic_k_ms,
        native_cubic_window as cubic_window, native_highspeed_growth as highspeed_growth,
        native_htcp_growth as htcp_growth, native_illinois_growth as illinois_growth,
    };
}

pub use c::{
    native_ants_credit as ants_credit, native_classify as classify,
    native_credit_at_leave as credit_at_leave, native_features as features,
    native_is_sparse as is_sparse, native_light_us as light_us,
    native_may_track_lightly as may_track_lightly, native_mean_gap as mean_gap,
    native_p4air_bdp_packets as p4air_bdp_packets, native_p4air_interval as p4air_interval,
    native_quotient as quotient, native_shape_resumes as shape_resumes,
    native_shape_round as shape_round,
};
