//! Behaviour required on every kernel from 6.1 on, with only reno, cubic, bbr and tbf.
//!
//! Needs root. Run by `make host-test` natively, and by `tests/run.sh` in machines.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes only the test functions themselves for tests, not their helpers"
)]

mod access;
mod alone;
mod alone_local;
mod alone_mptcp;
mod alone_route;
mod answers;
mod bursts;
mod choosing;
mod commands;
mod congestion;
mod container;
mod ecn;
mod effect;
mod fair;
mod fair_qdisc;
mod fair_share;
mod fleet;
mod front;
mod greedy;
mod held_out;
mod learner;
mod learning;
mod leftovers;
mod life;
mod lists;
mod loss;
mod manager;
mod measures;
mod metrics;
mod moving;
mod neighbours;
mod page;
mod paths;
mod records;
mod relay;
mod reload;
mod rescue;
mod robust;
mod saving;
mod scripts;
mod starting;
mod take_over;
mod terminal;
mod thompson;
mod tuning;
mod upgrade;
mod watch;
mod watch_light_tracking;
mod watch_link;
mod watch_losses;
mod watch_models;
mod watch_operators;
mod watch_quic;
mod watch_read;
mod watch_recorded;
mod watch_sent;

/// If the pilot may choose, every connection gets bbr, from the first on.
pub const ALWAYS_BBR: &str = r#"
    algorithms = ["bbr"]
    replace_defaults = ["reno"]
    [rescue]
    algorithm = ""
    [effect]
    hold_out_percent = 0
"#;

/// Added to one of the configurations here: the other learner. It tries nothing, and chooses from the first
/// connection on.
pub const GREEDY: &str = r#"
    [learner]
    kind = "epsilon-greedy"
    min_instances = 0
    epsilon = 0
"#;

/// Only the default: the pilot measures connections, but does not change them.
pub const ALWAYS_RENO: &str = r#"
    algorithms = ["reno"]
    replace_defaults = ["reno"]
    [rescue]
    algorithm = ""
    [effect]
    hold_out_percent = 0
"#;
