//! The configuration: one optional TOML file, by default `/etc/tcpilot/tcpilot.toml`.
//!
//! Each default lives here and nowhere else, with its unit and its reason. BPF gets the values as read-only
//! data. The whole file is read even if it has mistakes, and each mistake is reported on a line of its own.

mod abi;
mod effect;
mod failures;
mod fleet;
mod learner;
pub(crate) mod names;
mod policies;
pub mod reference;
mod rules;
mod separation;
mod settings;
mod socket;
#[cfg(test)]
mod tests;
mod tunings;
mod values;
mod write;

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tcpilot_kernel::{cc, host};
use toml::de::DeTable;

pub use effect::Effect;
pub use fleet::Fleet;
pub use learner::{EpsilonGreedy, Learner, Thompson};
pub use policies::{
    DEFAULT_POLICY, LEAVE_ALONE_POLICY, LeaveAlone, Match, Policy, PrefixOverrides,
};
pub use rules::RuleTemplate;
pub use separation::{SeparateByInterface, SeparateByNamespace, has_several_ways_out};
use settings::{Section, Source, Table, settings};
pub use socket::Socket;
pub use tunings::{Feature, Network, Objective, Tuning, WindowRule, net_word, tune_word};
pub use values::{Algorithm, CgroupPath, Hear, HoldOut, LearnerKind, Namespace, Ports};

/// The configuration file if the user names no other; it need not exist.
pub const DEFAULT_FILE: &str = "/etc/tcpilot/tcpilot.toml";

/// One mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as the user named it.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// The mistake, and the text to write instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file has mistakes: at least one, each a line of the message.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

/// A configuration as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The file, as it was named.
    pub file: String,
    /// Its content.
    pub text: String,
}

/// Longest accepted configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("it has more than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            message,
        ));
    }
    Ok(text)
}

fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(Problem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

settings! {
    /// The effective configuration.
    Config {
        /// Congestion controls to choose among. Those missing in the kernel are left out, or replaced by
        /// tcpilot's own; dctcp and prague have conditions (see "Algorithms").
        algorithms: Vec<Algorithm> = known(DEFAULT_ALGORITHMS), 1..=8;
        /// Default congestion controls that tcpilot may replace. Any other default was set by the namespace's
        /// administrator. `built-in` is the kernel's compiled-in one.
        replace_defaults: Vec<Algorithm> = known(&["cubic", "reno", BUILT_IN]), 1..=4;
        /// Whether tcpilot also manages connections over loopback. There is nothing to learn from them.
        manage_loopback: bool = false;
        /// Decide and report, but set nothing. Connections keep the kernel's default, and tcpilot learns from
        /// them.
        dry_run: bool = false;
        /// Maximum number of remembered paths; the least known are evicted. Each takes about 120 bytes of kernel
        /// memory (600 with epsilon-greedy) and 400 of the daemon's. A tuning adds 550 bytes, and evicts the
        /// longest unused path.
        paths_max: u32 = 16384, 64..=1048576;
    }
    with {
        /// How an algorithm is chosen and judged.
        learner: Learner;
        /// How it is shown whether tcpilot helps.
        effect: Effect;
        /// The rescue of a connection under lasting loss.
        rescue: Rescue;
        /// How a path's slow-start threshold is measured.
        ssthresh: Ssthresh;
        /// Which remote addresses share a path.
        prefix: PrefixLengths;
        /// The tunings, in addition to the congestion control.
        tuning: Tuning;
        /// The state on disk.
        state: State;
        /// The control socket.
        socket: Socket;
        /// The part in a fleet; `None` without the section.
        fleet: Option<Fleet>;
        /// Connections to leave untouched.
        leave_alone: LeaveAlone;
        /// Policies, in the order of their trial.
        policies: Vec<Policy>;
        /// The policies' names by their numbers, if these are not the file's order: see [`Config::number_as`].
        numbers: Vec<String>;
    }
}

settings! {
    /// `[rescue]`: the switch, once, of a connection under lasting loss.
    Rescue {
        /// The algorithm after the switch, one of those to choose from; "" for none. bbr does not take loss for
        /// congestion.
        algorithm: Option<Algorithm> = Algorithm::new("bbr");
        /// Loss without a queue is heavy if more than 1/2^shift of the segments were retransmitted, in three
        /// losses in a row; or an eighth of it in eight. 6 is 1.6 %.
        loss_shift: u32 = 6, 1..=16;
        /// Segments before tcpilot judges the loss of a connection.
        min_segments: u32 = 64, 1..=1000000;
        /// Whether the connection gets thin linear timeouts too: with few segments in flight its retransmission
        /// timer does not back off.
        thin_linear_timeouts: bool = true;
        /// Seconds without rescues on a path after a failed one. Each further failure doubles the time, up to 64
        /// times as long.
        retry_s: u32 = 600, 1..=86400;
        /// Whether the published rule holds instead, to reproduce experiments: all losses count, whatever their
        /// cause, and nothing is undone.
        published: bool = false;
    }
}

settings! {
    /// `[ssthresh]`: how a path's slow-start threshold is measured.
    Ssthresh {
        /// Seconds until tcpilot forgets the highest threshold, at the latest after twice as many.
        window_s: u32 = 30, 1..=86400;
        /// Least threshold that counts, in packets. 10 is the initial window (RFC 6928).
        floor_packets: u32 = 10, 1..=100000;
    }
}

settings! {
    /// `[prefix]`: which remote addresses share a path, as prefix lengths in bits.
    PrefixLengths {
        /// Bits in private and link-local IPv4 space (RFC 1918, RFC 6598, RFC 3927): each host is a path.
        ipv4_private: u8 = 32, 0..=32;
        /// Bits in other IPv4 space. Providers route no longer prefixes.
        ipv4_public: u8 = 24, 0..=32;
        /// Bits in private and link-local IPv6 space (RFC 4193, RFC 4291): each host is a path.
        ipv6_private: u8 = 128, 0..=128;
        /// Bits in other IPv6 space. Providers route no longer prefixes.
        ipv6_public: u8 = 48, 0..=128;
    }
}

settings! {
    /// `[state]`: the state on disk.
    State {
        /// Seconds between two saves: the knowledge that a crash can lose.
        save_interval_s: u32 = 60, 1..=86400;
        /// Days until tcpilot forgets an unused path.
        max_age_days: u32 = 7, 1..=3650;
    }
}

impl State {
    /// Time between two saves.
    pub fn save_interval(&self) -> Duration {
        Duration::from_secs(self.save_interval_s.into())
    }

    /// Maximum age of a path in seconds.
    pub fn max_age_s(&self) -> u64 {
        u64::from(self.max_age_days) * 86400
    }
}

const DEFAULT_ALGORITHMS: &[&str] = &["cubic", "bbr", "tp_bbr3"];

/// The word in `replace_defaults` for the kernel's compiled-in default.
pub const BUILT_IN: &str = "built-in";

fn known(names: &[&str]) -> Vec<Algorithm> {
    names
        .iter()
        .filter_map(|name| Algorithm::new(name))
        .collect()
}

impl Config {
    /// Reads a file. Without a name: [`DEFAULT_FILE`], or the defaults if this file does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes.
    pub fn load(path: Option<&Path>) -> Result<Config, ConfigError> {
        Config::of(Config::read_source(path)?.as_ref())
    }

    /// The text of the file of [`Config::load`]; `None`: the defaults are in force.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_source(path: Option<&Path>) -> Result<Option<Text>, ConfigError> {
        let file = path.unwrap_or(Path::new(DEFAULT_FILE));
        match read_file(file) {
            Ok(text) => Ok(Some(Text {
                file: file.display().to_string(),
                text,
            })),
            Err(error) if path.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(source) => Err(ConfigError::Unreadable {
                path: file.to_owned(),
                source,
            }),
        }
    }

    /// The configuration in a text; all algorithms of this host are allowed. `None`: the defaults.
    ///
    /// # Errors
    /// The text has mistakes.
    pub fn of(text: Option<&Text>) -> Result<Config, ConfigError> {
        let Some(text) = text else {
            return Ok(Config::default());
        };
        let mut hosts = host::registered_algorithms();
        hosts.extend(host::loadable_algorithms());
        Config::read_text(&text.text, &text.file, &hosts)
    }

    /// Reads a text; `name` is the file's, for messages. The text may name the algorithms of the kernel and
    /// tcpilot's own.
    ///
    /// # Errors
    /// The text has mistakes.
    pub fn from_toml(text: &str, name: &str) -> Result<Config, ConfigError> {
        Config::read_text(text, name, &[])
    }

    /// The same, but the text may also name `hosts`, the algorithms of this host.
    fn read_text(text: &str, name: &str, hosts: &[String]) -> Result<Config, ConfigError> {
        let source = Source::new(name, text);
        let mut config = Config::default();
        match DeTable::parse(text) {
            Err(error) => {
                source.report(error.span().map_or(0, |span| span.start), not_toml(&error))
            }
            Ok(document) => {
                config.read_all(&Table::new(&source, "", 0, document.get_ref()), hosts);
            }
        }
        match source.into_problems() {
            problems if problems.is_empty() => Ok(config),
            problems => Err(ConfigError::Invalid(problems)),
        }
    }

    fn read_all(&mut self, top: &Table<'_>, hosts: &[String]) {
        self.read(top);
        let sections = self.sections_mut();
        let mut known = sections
            .map(|(name, section)| (name, key_names(section)))
            .to_vec();
        known.push(("learner", Learner::keys_of_kinds()));
        known.push(("fleet", key_names(&Fleet::default())));
        for (name, section) in self.sections_mut() {
            if let Some(table) = top.sub(name, &format!(" in [{name}]")) {
                section.read(&table);
                table.refuse_others(|key| belongs(key, name, &known));
            }
        }
        self.read_fleet(top, &known);
        self.refuse_contradictions(top);
        self.refuse_unknown(top, hosts);
        self.policies = policies::read(top, &self.algorithms);
        self.refuse_too_many(top);
        top.refuse_others(|key| belongs(key, "", &known));
    }

    /// Reads `[fleet]`, if it is there.
    fn read_fleet(&mut self, top: &Table<'_>, known: &[(&'static str, Vec<&'static str>)]) {
        let Some(table) = top.sub("fleet", " in [fleet]") else {
            return;
        };
        let mut fleet = Fleet::default();
        fleet.read(&table);
        table.refuse_others(|key| belongs(key, "fleet", known));
        if !fleet.dir.starts_with('/') {
            table.report(
                "dir",
                "`dir` in [fleet] must be a whole path, beginning with /",
            );
        }
        self.fleet = Some(fleet);
    }

    /// Reports contradictions between values.
    fn refuse_contradictions(&self, top: &Table<'_>) {
        let rescuer = self.rescue.algorithm.as_ref();
        let thompson = &self.learner.thompson;
        let contradictions = [
            (
                rescuer.is_some_and(Algorithm::needs_ecn),
                "rescue",
                "algorithm",
                "`algorithm` in [rescue] needs ECN, a rescue must not; try \"bbr\"",
            ),
            (
                self.effect.settle_s.saturating_mul(2) >= self.effect.block_s,
                "effect",
                "settle_s",
                "`settle_s` in [effect] must be less than half of `block_s`, or no connection counts",
            ),
            (
                thompson.move_long && self.learner.estimates.sample_s == 0,
                "learner",
                "move_long",
                "`move_long` in [learner] needs `sample_s`: only connections that are looked at are moved",
            ),
        ];
        let broken = contradictions.into_iter().filter(|one| one.0);
        for (_, section, key, text) in broken {
            if let Some(table) = top.sub(section, "") {
                table.report(key, text);
            }
        }
    }

    /// The sections with their names, in the order of the documentation.
    fn sections_mut(&mut self) -> [(&'static str, &mut dyn Section); 9] {
        [
            ("learner", &mut self.learner),
            ("effect", &mut self.effect),
            ("rescue", &mut self.rescue),
            ("ssthresh", &mut self.ssthresh),
            ("prefix", &mut self.prefix),
            ("tuning", &mut self.tuning),
            ("state", &mut self.state),
            ("socket", &mut self.socket),
            ("leave_alone", &mut self.leave_alone),
        ]
    }

    /// The objective of the policy with this name.
    pub fn objective_of(&self, policy: &str) -> Objective {
        let policy = self.policies.iter().find(|p| p.name == policy);
        policy
            .and_then(|policy| policy.objective)
            .unwrap_or(self.tuning.objective)
    }

    /// The congestion controls needed in the kernel: those to choose from, and the rescue's.
    pub fn wanted_algorithms(&self) -> Vec<&str> {
        let mut wanted: Vec<&str> = self.algorithms.iter().map(Algorithm::as_str).collect();
        let rescue = self.rescue.algorithm.as_ref().map(Algorithm::as_str);
        if let Some(rescue) = rescue.filter(|rescue| !wanted.contains(rescue)) {
            wanted.push(rescue);
        }
        wanted
    }

    /// The defaults among the algorithms that are tcpilot's own: nobody asked for them by name.
    pub fn own_defaults(&self) -> Vec<Algorithm> {
        let defaults = Config::default().algorithms;
        let is_named =
            |name: &&Algorithm| self.policies.iter().any(|p| p.algorithms.contains(name));
        let own = defaults.iter().filter(|name| is_own(name));
        match self.algorithms == defaults {
            true => own.filter(|name| !is_named(name)).cloned().collect(),
            false => Vec::new(),
        }
    }

    /// Replaces default algorithms missing in the kernel by tcpilot's own versions, and leaves out
    /// [`Config::own_defaults`] that are missing. A value that differs from its default stays, because somebody chose
    /// it.
    pub fn stand_in(&mut self, is_lacking: impl Fn(&str) -> bool) {
        let defaults = Config::default();
        let replace = |name: &mut Algorithm| {
            let own = Algorithm::new(&format!("{}{name}", cc::PREFIX));
            if let Some(own) = own.filter(|_| !is_own(name) && is_lacking(name.as_str())) {
                *name = own;
            }
        };
        if self.algorithms == defaults.algorithms {
            let own = self.own_defaults();
            self.algorithms
                .retain(|name| !own.contains(name) || !is_lacking(name.as_str()));
            let of_policies = self.policies.iter_mut().flat_map(|p| &mut p.algorithms);
            self.algorithms
                .iter_mut()
                .chain(of_policies)
                .for_each(replace);
        }
        if self.rescue.algorithm == defaults.rescue.algorithm {
            self.rescue.algorithm.iter_mut().for_each(replace);
        }
    }
}

/// Whether it is one of tcpilot's own algorithms.
fn is_own(name: &Algorithm) -> bool {
    name.as_str().starts_with(cc::PREFIX)
}

fn key_names(section: &dyn Section) -> Vec<&'static str> {
    section.keys().iter().map(|key| key.name).collect()
}

/// The right section of an unknown key, if another section has a key of this name.
fn belongs(
    key: &str,
    here: &str,
    sections: &[(&'static str, Vec<&'static str>)],
) -> Option<String> {
    let top = key_names(&Config::default());
    if !here.is_empty() && top.contains(&key) {
        return Some("before the first [section]".to_owned());
    }
    let (name, _) = sections
        .iter()
        .find(|(name, keys)| *name != here && keys.contains(&key))?;
    Some(format!("in [{name}]"))
}

fn not_toml(error: &toml::de::Error) -> String {
    format!("not TOML: {}", error.message())
}
