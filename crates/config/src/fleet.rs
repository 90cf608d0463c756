//! `[fleet]`: the daemon's part in a fleet. It takes part only if the file has this section.

use super::settings::settings;
use super::values::Hear;

settings! {
    /// `[fleet]`: the exchange with `tcpilot-fleet`, the agent of this host.
    Fleet {
        /// Folder of the agent: `state_dir` in its own settings. The daemon writes this host's knowledge to `own` there,
        /// and reads the knowledge of other hosts from `heard`.
        dir: String = "/var/lib/tcpilot-fleet".to_owned();
        /// Use of the knowledge of other hosts. "on": the learner thompson begins with it on addresses that are new to
        /// this host. "show": it changes nothing, and `explain` shows the shares with it. "off": this host says what it
        /// knows, and hears nothing.
        hear: Hear = Hear::On;
        /// File with the fleet's secret, at least 16 bytes, the same on all hosts of the fleet; others must not be able to
        /// read it. With it a prefix is held out for `tcpilot report` at the same times on all hosts, and the same sites are
        /// held back from the fleet. Empty: this host draws a secret of its own.
        secret_file: String = String::new();
        /// Seconds between two writings of this host's knowledge. It is written only if connections have changed it.
        say_every_s: u32 = 60, 1..=3600;
    }
}
