//! The daemon: loads the pilot, answers questions, saves the knowledge, and leaves no trace when it ends.
//!
//! Its first thread wakes for a question or a signal, and once a second for housekeeping. The learner, the
//! sums of traffic and the metrics have threads of their own.

mod access;
mod answer;
mod attachment;
mod client;
mod control;
mod egress;
mod eligible;
mod fleet;
mod guard;
mod inherited;
mod learned;
mod learning;
mod listener;
mod manager;
mod netns;
mod netns_end;
mod rules;
mod saving;
#[cfg(test)]
mod schedules;
mod signals;
mod start;
mod state_file;
mod traffic;
mod trial;
mod tunings;
mod upgrade;
mod uplink;
mod usable_arms;

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tcpilot_abi::{Trouble, tp_config, tp_rule};
use tcpilot_config::{Algorithm, Config, RuleTemplate, Text};
use tcpilot_kernel::{
    Pilot,
    cc::{Held, Kept},
    host, inherited as inherited_descriptor,
};
use tcpilot_show::{
    failure::{Failure, Kind},
    live, output,
};

use crate::{
    args::{DEFAULT_CONFIG, RunArgs},
    report, table,
};
use control::Control;
use inherited::HandOver;
use learning::Learning;
use listener::Listener;
use saving::{Saver, Saves};
use signals::Signals;
use start::Prepared;
use traffic::Traffic;
pub use traffic::{device_bytes, traffic_view};
use trial::Successor;
use upgrade::Upgrade;

const TICK: Duration = Duration::from_secs(1);
/// Interval of looks at the clients that a successor waits for.
const READY_TICK: Duration = Duration::from_millis(5);
/// Interval between two look-ups of the rules' namespaces and cgroups.
const RULES_EVERY: Duration = Duration::from_secs(5);

/// The last time of each chore.
struct Times {
    ticked: Instant,
    rules: Instant,
    guarded: Instant,
    saved: Instant,
    uplinks: Instant,
}

impl Default for Times {
    fn default() -> Times {
        let now = Instant::now();
        Times {
            ticked: now,
            rules: now,
            guarded: now,
            saved: now,
            uplinks: now,
        }
    }
}

/// The running daemon.
pub struct Daemon {
    pilot: Pilot,
    config: Config,
    abi: tp_config,
    arms: Vec<String>,
    arms_missing: Vec<String>,
    /// Our congestion controls, registered while the daemon runs.
    held: Vec<Held>,
    /// Our congestion controls registered by this process's former program.
    kept: Vec<Kept>,
    templates: Vec<RuleTemplate>,
    rules: Vec<tp_rule>,
    netns: netns::Names,
    ended: netns_end::Ended,
    cgroup: PathBuf,
    changes: attachment::Changes,
    /// When the cgroup was first found missing.
    gone_since: Option<Instant>,
    saves: Saves,
    /// The learner, if it works in the daemon.
    learning: Option<Learning>,
    started: Instant,
    told: Vec<Trouble>,
    /// Priority queues, while the daemon runs.
    _egress: egress::Egress,
    /// The tunings switched off by the guard.
    off: Vec<tunings::Off>,
    /// Judges the tunings.
    guard: guard::Guard,
    upgrade: Upgrade,
    uplinks: uplink::Uplinks,
    /// The part in a fleet; `None` without `[fleet]`.
    fleet: Option<fleet::Fleet>,
    /// Measures the steered share of the host's bytes; `None` if impossible.
    traffic: Option<traffic::Traffic>,
    /// Why the group of the configuration cannot use the control socket.
    unshared: Option<String>,
    listener: Listener,
}

/// Why the daemon stops serving.
enum ServeEnd {
    End,
    Upgrade(Successor),
}

/// The configuration of the `--config` argument, or of the default file without one.
///
/// # Errors
/// Those of [`Config::load`]; a file named by the user must exist.
pub fn load_config(file: Option<&Path>) -> Result<Config, Failure> {
    Ok(Config::of(load_text(file)?.as_ref())?)
}

/// Replaces the word for the kernel's built-in default by its name.
pub fn resolve_defaults(config: &mut Config) {
    let built_in = host::built_in_default().and_then(|name| Algorithm::new(&name));
    usable_arms::resolve_built_in(&mut config.replace_defaults, built_in);
}

/// Warnings about the configuration on this host.
pub fn warnings(config: &Config) -> Vec<String> {
    let root = host::cgroup2_root();
    root.map_or_else(
        |_| Vec::new(),
        |root| rules::warnings(&config.rules(), &root),
    )
}

/// The text of the configuration of [`load_config`]; `None`: the defaults.
fn load_text(file: Option<&Path>) -> Result<Option<Text>, Failure> {
    let default = Path::new(DEFAULT_CONFIG);
    let file = file.or_else(|| default.exists().then_some(default));
    Ok(Config::read_source(file)?)
}

/// `tcpilot run`: runs until a signal, or until its cgroup is gone.
///
/// # Errors
/// The daemon cannot start, its cgroup was removed, or the last save failed.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let hand_over = HandOver::received()?;
    let given = match &hand_over {
        None => listener::from_manager()?,
        Some(hand_over) => hand_over.listener.map(inherited_descriptor).transpose()?,
    };
    let (mut control, mut daemon, signals, mut screen) = match hand_over {
        Some(hand_over) if hand_over.trial => return trial::run(args, hand_over),
        Some(HandOver {
            inherited: Some(inherited),
            times,
            ..
        }) => {
            let control = Control::resume(&args.socket, inherited.control)?;
            let signals = Signals::resume()?;
            let (mut daemon, legacy) = Daemon::resume(args, &inherited, times)?;
            let screen = open_screen(args)?;
            daemon.replace_programs(legacy)?;
            daemon.share_socket(&args.socket);
            daemon.listener = Listener::open(args, given)?;
            daemon.tell_ready();
            (control, daemon, signals, screen)
        }
        other => start_first(args, other, given)?,
    };
    loop {
        let next = daemon.serve(&mut control, &signals, &mut screen);
        match next {
            Ok(ServeEnd::Upgrade(successor)) if successor.result.fits => {
                drop(screen.take()); // the next program opens its own
                daemon.become_successor(&mut control, &successor);
                screen = open_screen(args)?;
            }
            Ok(ServeEnd::Upgrade(successor)) => {
                tracing::warn!(
                    "the other version keeps its memory in another way: it starts anew, with what \
                     was saved; connections that are open now are left alone"
                );
                let times = daemon.times_after();
                let listener = std::mem::replace(&mut daemon.listener, Listener::UNWANTED);
                drop(screen.take());
                let _ = finish(args, daemon, Ok(())); // it logs its own errors
                manager::reloading(); // the service goes on in the next program
                drop(control);
                return Err(upgrade::start_anew(&successor, times, &listener));
            }
            Ok(ServeEnd::End) => return end(args, daemon, screen, Ok(())),
            Err(failure) => return end(args, daemon, screen, Err(failure)),
        }
    }
}

type Running = (Control, Daemon, Signals, Option<live::Screen>);

/// Starts without inherited state. `given` is a socket for scrapers.
fn start_first(
    args: &RunArgs,
    hand_over: Option<HandOver>,
    given: Option<OwnedFd>,
) -> Result<Running, Failure> {
    let config = load_config(args.config.as_deref())?;
    check_free(args)?;
    let control = Control::open(&args.socket)?;
    let signals = match hand_over {
        Some(_) => Signals::resume()?,
        None => Signals::listen()?,
    };
    let listener = Listener::open(args, given)?;
    let mut daemon = Daemon::start(config, args)?;
    daemon.listener = listener;
    daemon.share_socket(&args.socket);
    daemon.upgrade = Upgrade::new(hand_over.unwrap_or_default().times);
    let screen = open_screen(args)?;
    daemon.attach()?;
    daemon.tell_ready();
    Ok((control, daemon, signals, screen))
}

/// Opens the screen. Call it before the pilot is attached: a terminal can stop its process.
fn open_screen(args: &RunArgs) -> io::Result<Option<live::Screen>> {
    if args.live {
        live::Screen::if_any()
    } else {
        Ok(None)
    }
}

/// Ends the daemon for good. The report comes after the screen is closed: closing wipes all that is on it.
fn end(
    args: &RunArgs,
    daemon: Daemon,
    screen: Option<live::Screen>,
    result: Result<(), Failure>,
) -> Result<(), Failure> {
    drop(screen);
    manager::stopping();
    finish(args, daemon, result)
}

/// Saves, detaches, and prints a report if `--live` asks for it.
fn finish(args: &RunArgs, mut daemon: Daemon, result: Result<(), Failure>) -> Result<(), Failure> {
    let saved = daemon.save();
    let (status, paths) = (daemon.status(), daemon.path_views());
    let effect = daemon.report();
    drop(daemon);
    if args.live {
        let report = report::text(&effect) + &table::report(&status, &paths);
        let _ = output::print(&report); // the terminal may be gone
    }
    result.and(saved.map_err(|error| Failure::new(Kind::Failed, error, "")))
}

/// Checks the host, the socket and the cgroup before anything is made: a refused run leaves nothing behind.
fn check_free(args: &RunArgs) -> Result<(), Failure> {
    host::check_requirements()?;
    control::check_free(&args.socket)?;
    let named = args.cgroup.clone();
    let cgroup = named.map_or_else(host::whole_cgroup2_root, Ok)?;
    Ok(tcpilot_kernel::check_free(&cgroup)?)
}

impl Daemon {
    /// Attaches the pilot of a complete daemon: the first connection finds the earlier knowledge.
    fn attach(&mut self) -> Result<(), Failure> {
        let cgroup = self.cgroup.clone();
        if let Some(learning) = &self.learning {
            learning.begin_choosing();
        }
        self.pilot.attach(&cgroup)?;
        self.begin_learning()?;
        self.watch_traffic();
        self.watch_netns();
        tracing::info!(
            cgroup = %self.cgroup.display(),
            algorithms = self.arms.join(","),
            dry_run = self.config.dry_run,
            "attached"
        );
        Ok(())
    }

    /// Starts to measure traffic. If this fails, the daemon runs without these figures.
    fn watch_traffic(&mut self) {
        let begun = self.pilot.tally().map_err(|error| error.to_string());
        let begun = begun.and_then(|tally| Traffic::begin(tally).map_err(|e| e.to_string()));
        match begun {
            Ok(traffic) => self.traffic = Some(traffic),
            Err(error) => tracing::warn!(%error, "how much of the traffic is steered is not known"),
        }
    }

    /// Lets the group of the configuration use the control socket. If this fails, tcpilot steers anyway.
    fn share_socket(&mut self, socket: &Path) {
        self.unshared = access::share(socket, &self.config.socket.group).err();
        if let Some(problem) = &self.unshared {
            tracing::warn!("{problem}");
        }
    }

    /// Reports readiness to the service manager.
    fn tell_ready(&self) {
        let arms = self.arms.join(" ");
        manager::ready(&format!("steers {} with {arms}", self.cgroup.display()));
    }

    /// A sentence if tcpilot may not replace the default of the daemon's own namespace.
    fn kept_default(&self) -> Option<String> {
        let default = host::default_algorithm()?;
        let replaced = &self.config.replace_defaults;
        (!replaced.iter().any(|d| d.as_str() == default)).then(|| {
            format!(
                "this host's default is {default}, which an administrator chose: its connections are \
                 left alone; add it to replace_defaults to let tcpilot choose"
            )
        })
    }

    fn serve(
        &mut self,
        control: &mut Control,
        signals: &Signals,
        screen: &mut Option<live::Screen>,
    ) -> Result<ServeEnd, Failure> {
        let mut times = Times::default();
        while !signals.stop() {
            let timeout = match self.saves.saving {
                None if self.upgrade.is_ready() => READY_TICK,
                None => TICK.saturating_sub(times.ticked.elapsed()),
                Some(_) => Duration::ZERO,
            };
            let trial = self.upgrade.trial().and_then(trial::Trial::fd);
            let others: Vec<_> = self.changes.fd().into_iter().chain(trial).collect();
            if let Some(client) = control.wait(timeout, &others) {
                client.answer(|request, out| self.answer(request, out));
            }
            if !self.upgrade.is_under_way() && signals.reload() {
                self.try_successor(&trial::own_program());
            }
            if let Some(successor) = self.successor(control) {
                return Ok(ServeEnd::Upgrade(successor));
            }
            self.follow_cgroup()?;
            let _ = self.go_on_saving(); // it logs its own errors
            if times.ticked.elapsed() < TICK {
                continue;
            }
            self.keep_house(&mut times);
            if let Some(shown) = screen {
                match shown.show(
                    &table::status(&self.status()),
                    &table::addresses(&self.path_views()),
                ) {
                    Ok(quit) if quit => break,
                    Ok(_) => {}
                    Err(error) => {
                        *screen = None;
                        tracing::warn!(%error, "the terminal is gone: no live view any more");
                    }
                }
            }
        }
        Ok(ServeEnd::End)
    }

    /// Does the due chores; called once a second.
    fn keep_house(&mut self, times: &mut Times) {
        times.ticked = Instant::now();
        manager::alive();
        self.tell_trouble();
        self.listener.retry();
        self.forget_ended_netns();
        if let (Some(fleet), Some(learning)) = (&mut self.fleet, &self.learning) {
            fleet.turn(learning);
        }
        usable_arms::hold(&self.arms, &mut self.held);
        if times.rules.elapsed() >= RULES_EVERY {
            times.rules = Instant::now();
            self.refresh_rules();
        }
        if times.guarded.elapsed() >= tunings::GUARD_EVERY {
            times.guarded = Instant::now();
            self.guard();
        }
        if times.uplinks.elapsed() >= uplink::EVERY {
            times.uplinks = Instant::now();
            self.watch_uplinks();
        }
        let is_due = times.saved.elapsed() >= self.config.state.save_interval();
        if is_due && self.saves.saving.is_none() {
            times.saved = Instant::now();
            let _ = self.begin_save(); // it logs its own errors, and the next save tries again
        }
    }

    /// Tells the learner whether a queue of this host is often full: the fair way to compare depends on it.
    fn watch_uplinks(&mut self) {
        if let Some(learning) = &self.learning {
            self.uplinks.look();
            learning.set_full(self.uplinks.is_often_full());
        }
    }

    /// Logs each kind of trouble once, and looks at the traffic; called once a second.
    fn tell_trouble(&mut self) {
        let counters = self.pilot.counters();
        if let Some(traffic) = &mut self.traffic {
            traffic.look(counters.steered_bytes);
        }
        if let Some(learning) = &self.learning {
            learning.log_stale();
        }
        for (trouble, count) in Trouble::ALL.into_iter().zip(counters.trouble) {
            if count > 0 && !self.told.contains(&trouble) {
                self.told.push(trouble);
                tracing::warn!(trouble = trouble.word(), "{}", trouble.sentence());
            }
        }
    }

    fn refresh_rules(&mut self) {
        let Ok(root) = host::cgroup2_root() else {
            return;
        };
        let rules = rules::resolve(&self.templates, &root, &self.rules);
        if rules != self.rules {
            tracing::info!("a cgroup or namespace that a rule names came or went");
            self.pilot.set_rules(&rules);
            self.rules = rules;
        }
    }
}
