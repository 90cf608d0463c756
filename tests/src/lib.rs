//! The tools of the behaviour tests: namespaces joined by a link, a cgroup, the daemon, and processes to
//! connect and send on order.
//!
//! Drop removes everything a test makes on the host, even if the test panics. The names contain the
//! process id, to keep two runs apart. Nothing here waits for a fixed time: [`until`] polls with a
//! deadline.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is the report"
)]

mod actor;
mod bpffs;
mod cgroup;
mod daemon;
pub mod flood;
mod lab;
mod learner;
mod net;
mod place;
mod process;
mod programs;
pub mod schema;
pub mod scripted;
mod signals;
pub mod suite;
mod sweep;
mod tap;
mod unique;
mod watch;

use std::{
    thread,
    time::{Duration, Instant},
};

pub use actor::Actor;
pub use bpffs::{Bpffs, Registrations};
pub use cgroup::{Cgroup, root as cgroup_root};
pub use daemon::{Daemon, Ended, arm, assert_same_arms, keys};
pub use lab::{FAR, Lab, NEAR, PORT, Running, serve, serve_with};
pub use learner::configured;
pub use net::{Netns, Pair, Shape, Sink};
pub use process::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Capabilities, Child, Place, binary, in_netns, sh,
};
pub use programs::{Neighbour, TEMPLATE, attached, is_loaded, programs_of, verified_instructions};
pub use sweep::sweep;
pub use tap::Tap;
pub use unique::folder;
use unique::unique;
pub use watch::{Look, Watching, one_leaf_model, sender_behind, sent_again};

/// The longest wait for anything. Emulated machines are slow, and a socket locked at the arrival of its
/// peer's FIN stays in FIN_WAIT2 for tcp_fin_timeout, 60 s, before it closes.
const PATIENCE: Duration = Duration::from_secs(150);

/// Polls until `f` gives something.
///
/// # Panics
/// With `what`, when it does not within [`PATIENCE`].
pub fn until<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = f() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        // A poll may cost a process: the longer the wait so far, the less a little more matters.
        let pause =
            (start.elapsed() / 4).clamp(Duration::from_millis(20), Duration::from_millis(250));
        thread::sleep(pause);
    }
}

/// Whether this is an emulated machine. It is about thirty times slower than the host, so a test that only
/// repeats itself does so less often there.
#[must_use]
pub fn is_emulated() -> bool {
    std::env::var_os("TCPILOT_EMULATED").is_some()
}
