//! The daemon: loads the pilot, answers questions, keeps what was learned, and goes without a trace.
//!
//! One thread. It wakes for a question, a signal, or once a second for its housekeeping.

mod answer;
mod arms;
mod attachment;
mod client;
mod control;
mod egress;
mod guard;
mod keeper;
mod learned;
mod netns;
mod rules;
mod tunings;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tcpilot_abi::{Trouble, tp_config, tp_rule};
use tcpilot_kernel::{Pilot, cc::Held, host};

use crate::{
    cli::{DEFAULT_CONFIG, RunArgs},
    failure::{Failure, Kind},
    pilot::config::{Algorithm, Config, RuleTemplate},
    pilot::{table, top},
    show::live,
};
use control::Control;
use keeper::Keeper;

const TICK: Duration = Duration::from_secs(1);
/// How often namespaces and cgroups that rules name are looked up again.
const RULES_EVERY: Duration = Duration::from_secs(5);

/// The running daemon.
pub struct Daemon {
    pilot: Pilot,
    config: Config,
    abi: tp_config,
    arms: Vec<String>,
    arms_missing: Vec<String>,
    /// Congestion controls of ours that are registered for as long as the daemon runs.
    _held: Vec<Held>,
    templates: Vec<RuleTemplate>,
    rules: Vec<tp_rule>,
    netns: netns::Names,
    cgroup: PathBuf,
    changes: attachment::Changes,
    /// When the cgroup was first found missing.
    gone_since: Option<Instant>,
    keeper: Keeper,
    started: Instant,
    saved_ns: u64,
    told: Vec<Trouble>,
    /// Queues that serve by priority, for as long as the daemon runs.
    _egress: egress::Egress,
    /// What the guard has switched off.
    off: Vec<tunings::Off>,
}

/// The configuration that a `--config` argument, or its absence, means.
///
/// # Errors
/// As [`Config::load`]; a file that was named must be there.
pub fn load_config(file: Option<&Path>) -> Result<Config, Failure> {
    let default = Path::new(DEFAULT_CONFIG);
    let file = file.or_else(|| default.exists().then_some(default));
    Ok(Config::load(file)?)
}

/// `tcpilot run`: until a signal, or until its cgroup is gone.
///
/// # Errors
/// One line for everything that keeps it from starting.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let mut config = load_config(args.config.as_deref())?;
    config.dry_run |= args.dry_run;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    check_free(args)?;
    let mut control = Control::open(&args.socket)?;
    let stop = stop_flag()?;
    let mut daemon = Daemon::start(config, args)?;
    // Before the pilot is attached: a terminal can stop a process that asks for it.
    let screen = if args.live {
        live::Screen::if_any()?
    } else {
        None
    };
    daemon.attach()?;
    let result = daemon.serve(&mut control, &stop, screen);
    let saved = daemon.save();
    let (status, paths) = (daemon.status(), daemon.path_views());
    drop(daemon);
    if args.live {
        let report = table::report(&status, &paths);
        let _ = io::stdout().write_all(report.as_bytes()); // the terminal may be gone
    }
    result.and(saved.map_err(|error| Failure::new(Kind::Failed, error, "")))
}

/// Refuses before anything is made: a refused run leaves nothing behind.
fn check_free(args: &RunArgs) -> Result<(), Failure> {
    host::check_requirements()?;
    control::check_free(&args.socket)?;
    let cgroup = args.cgroup.clone().map_or_else(host::cgroup2_root, Ok)?;
    Ok(tcpilot_kernel::check_free(&cgroup)?)
}

/// Set by a signal that ends tcpilot. A terminal that goes away sends SIGHUP, unless nohup(1) keeps it off.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if signal != SIGHUP || !host::ignores_signal(SIGHUP) {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
    }
    Ok(stop)
}

impl Daemon {
    fn start(mut config: Config, args: &RunArgs) -> Result<Daemon, Failure> {
        let built_in = host::built_in_default().and_then(|name| Algorithm::new(&name));
        arms::resolve_built_in(&mut config.replace_defaults, built_in);
        arms::stand_in(&mut config)?;
        let root = host::cgroup2_root()?;
        let cgroup = args.cgroup.clone().unwrap_or_else(|| root.clone());
        host::cgroup_id(&cgroup)?;
        let arms::Arms {
            mut held,
            present,
            mut missing,
        } = arms::make_usable(&config.algorithms)?;
        let mut abi = config.to_abi(&present);
        missing.extend(arms::check_rescue(&config, &mut abi, &mut held)?);
        if !host::raises_receive_windows() {
            for tuning in abi.tuning.iter_mut().flatten() {
                tuning.rwnd_most_bytes = tuning.rwnd_most_bytes.min(u16::MAX.into());
            }
        }
        let templates = config.rules();
        let keeper = Keeper::open(&args.state)?;
        let devices: &[String] = match config.tuning.ack_priority && !config.dry_run {
            true => &config.tuning.ack_priority_devices,
            false => &[],
        };
        let (egress, problems) = egress::Egress::set_up(devices, &args.state);
        missing.extend(problems);
        let mut pilot = Pilot::load(&abi, config.paths_max)?;
        if cgroup != root {
            pilot.set_cgroup(host::cgroup_id(&cgroup)?);
        }
        let rules = rules::resolve(&templates, &root, &[]);
        pilot.set_rules(&rules);
        let mut daemon = Daemon {
            pilot,
            abi,
            arms: present,
            arms_missing: missing,
            _held: held,
            templates,
            rules,
            netns: netns::Names::default(),
            changes: attachment::Changes::beside(&cgroup),
            gone_since: None,
            cgroup,
            keeper,
            started: Instant::now(),
            saved_ns: 0,
            told: Vec::new(),
            _egress: egress,
            off: Vec::new(),
            config,
        };
        daemon.restore();
        for missing in &daemon.arms_missing {
            tracing::warn!("{missing}");
        }
        for limit in daemon.limits() {
            tracing::warn!("{limit}");
        }
        Ok(daemon)
    }

    /// Once all is there: the first connection finds what was learned before.
    fn attach(&mut self) -> Result<(), Failure> {
        let cgroup = self.cgroup.clone();
        self.pilot.attach(&cgroup)?;
        tracing::info!(
            cgroup = %self.cgroup.display(),
            algorithms = self.arms.join(","),
            dry_run = self.config.dry_run,
            "attached"
        );
        Ok(())
    }

    /// What this host keeps from the daemon, a sentence each.
    fn limits(&self) -> Vec<String> {
        let confined = (!host::may_enter_netns()).then(|| {
            "CAP_SYS_ADMIN is missing: flows and explain list only the connections of this network \
             namespace; choosing and learning work in all"
                .to_owned()
        });
        self.kept_default().into_iter().chain(confined).collect()
    }

    /// A sentence where the default of the daemon's own namespace is not to be replaced.
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
        stop: &AtomicBool,
        mut screen: Option<live::Screen>,
    ) -> Result<(), Failure> {
        let (mut ticked, mut rules_at) = (Instant::now(), Instant::now());
        let (mut saved_at, mut guarded_at) = (Instant::now(), Instant::now());
        let save_every = self.config.state.save_interval();
        while !stop.load(Ordering::Relaxed) {
            let timeout = TICK.saturating_sub(ticked.elapsed());
            if let Some(client) = control.wait(timeout, self.changes.fd()) {
                client.answer(|request, out| self.answer(request, out));
            }
            self.follow_cgroup()?;
            if ticked.elapsed() < TICK {
                continue;
            }
            ticked = Instant::now();
            self.tell_trouble();
            if rules_at.elapsed() >= RULES_EVERY {
                rules_at = Instant::now();
                self.refresh_rules();
            }
            if guarded_at.elapsed() >= tunings::GUARD_EVERY {
                guarded_at = Instant::now();
                self.guard();
            }
            if saved_at.elapsed() >= save_every {
                saved_at = Instant::now();
                let _ = self.save(); // it says what is wrong, and tries again
            }
            if let Some(shown) = &mut screen {
                match shown.show(&top::text(&self.status(), &self.path_views())) {
                    Ok(quit) if quit => break,
                    Ok(_) => {}
                    Err(error) => {
                        screen = None;
                        tracing::warn!(%error, "the terminal is gone: no live view any more");
                    }
                }
            }
        }
        Ok(())
    }

    /// Once a second: is there trouble to tell of?
    fn tell_trouble(&mut self) {
        let counters = self.pilot.counters();
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
