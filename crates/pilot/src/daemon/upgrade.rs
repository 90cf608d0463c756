//! Upgrade in place: a daemon becomes another program, or to the same one with a new configuration, and stays
//! attached all the time. See docs/understand/decisions/17-upgrade.md.

use std::{
    io,
    os::fd::AsRawFd,
    path::Path,
    time::{Duration, Instant},
};

use tcpilot_abi::Trouble;
use tcpilot_config::Config;
use tcpilot_kernel::clock::monotonic_ns;
use tcpilot_kernel::{Legacy, Pilot, become_program, cc::Kept, wall_clock::Now};
use tcpilot_show::failure::{Failure, Kind};

use super::{
    Daemon, Prepared,
    control::Control,
    egress::Egress,
    inherited::{HandOver, Inherited, Numbers},
    learning::Counts,
    listener::Listener,
    manager, rules,
    saving::Saver,
    state_file::StateFile,
    trial::{Successor, Trial, command},
};
use crate::{args::RunArgs, figures::Upgrades};

/// Maximum wait of a successor for clients without an answer yet.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for clients that have not even asked: a question may be on its way.
const PATIENCE_WITH_SILENT: Duration = Duration::from_millis(300);

/// The state of an upgrade.
#[derive(Default)]
pub(super) struct Upgrade {
    trial: Option<Trial>,
    ready: Option<(Successor, Instant)>,
    pub(super) times: Upgrades,
}

impl Upgrade {
    pub(super) fn new(times: Upgrades) -> Upgrade {
        Upgrade {
            times,
            ..Upgrade::default()
        }
    }

    pub(super) fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    /// Whether an upgrade is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.trial.is_some() || self.ready.is_some()
    }

    /// Whether the next program waits only for clients.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    fn refuse(&mut self, problems: Vec<String>) {
        for problem in &problems {
            tracing::warn!("not upgraded, all goes on as before: {problem}");
        }
        self.times.refused += 1;
        self.times.problems = problems;
    }
}

impl Daemon {
    /// Starts the trial of a program. If the trial succeeds, the daemon becomes it.
    pub(super) fn try_successor(&mut self, program: &Path) {
        tracing::info!(program = %program.display(), "trying an upgrade");
        manager::reloading();
        let mut inherited = self.inherited();
        // The trial gets no link or claim: it must not keep a dead daemon attached, or its place taken.
        inherited.pilot.links.clear();
        inherited.pilot.claim = None;
        let hand_over = HandOver {
            trial: true,
            inherited: Some(inherited),
            ..HandOver::new(self.upgrade.times.clone())
        };
        match Trial::begin(program, &hand_over) {
            Ok(trial) => self.upgrade.trial = Some(trial),
            Err(error) => {
                let problem = format!("{} cannot be started: {error}", program.display());
                self.refuse(vec![problem]);
            }
        }
    }

    /// The daemon's next program, if there is one: its trial succeeded, and no client waits for an answer, or
    /// `PATIENCE` is over.
    pub(super) fn successor(&mut self, control: &mut Control) -> Option<Successor> {
        if let Some(mut trial) = self.upgrade.trial.take() {
            if !trial.is_over() {
                self.upgrade.trial = Some(trial);
                return None;
            }
            match trial.end() {
                Ok(successor) => self.upgrade.ready = Some((successor, Instant::now())),
                Err(problems) => self.refuse(problems),
            }
        }
        let (successor, since) = self.upgrade.ready.take()?;
        // From now on clients wait for the successor: scrapers first, because they in turn ask through the control
        // socket.
        let silent_count = since.elapsed() < PATIENCE_WITH_SILENT;
        self.listener.close(true);
        control.close(self.listener.is_idle(silent_count));
        let is_idle = self.listener.is_idle(silent_count) && control.is_idle(silent_count);
        if is_idle || since.elapsed() >= PATIENCE {
            return Some(successor);
        }
        self.upgrade.ready = Some((successor, since));
        None
    }

    fn refuse(&mut self, problems: Vec<String>) {
        self.upgrade.refuse(problems);
        self.tell_ready();
    }

    /// Becomes the successor. Returns only on failure; the daemon then goes on as before.
    pub(super) fn become_successor(&mut self, control: &mut Control, successor: &Successor) {
        let problem = match self.prepare_hand_over() {
            Ok(counts) => self.hand_over(control, successor, counts).to_string(),
            Err(problem) => problem,
        };
        let program = successor.program.display();
        self.refuse(vec![format!("{program}: {problem}")]);
        self.set_resting(false);
        control.close(false);
        self.listener.close(false);
    }

    /// Hands everything over. Returns only on failure.
    fn hand_over(
        &mut self,
        control: &Control,
        successor: &Successor,
        counts: Option<Counts>,
    ) -> io::Error {
        let mut command = command(&successor.program);
        let mut inherited = self.inherited();
        inherited.counts = counts;
        inherited.config = successor.result.config.clone();
        let (listener, lock) = control.descriptors();
        inherited.control = Some([listener.as_raw_fd(), lock.as_raw_fd()]);
        let mut left: Vec<i32> = inherited.pilot.all().collect();
        left.extend(inherited.control.iter().flatten());
        left.extend(inherited.kept.iter().map(|kept| kept.fd));
        let listener = self.listener.descriptor();
        left.extend(listener);
        let hand_over = HandOver {
            listener,
            inherited: Some(inherited),
            ..HandOver::new(self.times_after())
        };
        match hand_over.tell(&mut command) {
            Ok(file) => {
                left.push(file.as_raw_fd());
                become_program(command, &left)
            }
            Err(error) => error,
        }
    }

    pub(super) fn times_after(&self) -> Upgrades {
        Upgrades {
            done: self.upgrade.times.done + 1,
            refused: self.upgrade.times.refused,
            problems: Vec::new(),
        }
    }

    /// The state for a successor.
    fn inherited(&self) -> Inherited {
        let (pilot, keys) = self.pilot.legacy();
        let held = self.held.iter().map(tcpilot_kernel::cc::Held::descriptor);
        let kept = self.kept.iter().map(Kept::descriptor);
        let passed_ns = self.started.elapsed().as_nanos() as u64;
        let named = self.templates.iter().zip(&self.rules);
        Inherited {
            config: None,
            pilot,
            keys,
            control: None,
            kept: held.chain(kept).collect(),
            numbers: Numbers {
                arms: self.arms.clone(),
                policies: self
                    .config
                    .policy_names()
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
            },
            cgroups: named
                .filter_map(|(template, rule)| {
                    Some((template.cgroup.clone()?, rules::cgroup_ids(rule)))
                })
                .collect(),
            started_ns: monotonic_ns().saturating_sub(passed_ns),
            saved_ns: self.saves.saved_ns,
            told: self.told.iter().map(|t| t.word().to_owned()).collect(),
            off: self.off.clone(),
            counts: None,
        }
    }

    /// Makes a daemon from the former program's state. Its own programs are not attached until
    /// [`Daemon::replace_programs`].
    pub(super) fn resume(
        args: &RunArgs,
        inherited: &Inherited,
        times: Upgrades,
    ) -> Result<(Daemon, Legacy), Failure> {
        let legacy = Legacy::take(&inherited.pilot, inherited.keys)?;
        let kept = inherited.kept.iter().map(|kept| Kept::take(*kept));
        let kept = kept.collect::<Result<Vec<Kept>, _>>()?;
        let config = Config::of(inherited.config.as_ref())?;
        let mut prepared = Prepared::new(config, args, Some(&inherited.numbers))?;
        let mut state_file = StateFile::open(&args.state, Now::read())?;
        prepared.abi.assignment_secrets = prepared.assignment_secrets(&mut state_file);
        let (egress, problems) = Egress::go_on(prepared.devices(), &args.state);
        let pilot = Pilot::inherit(&prepared.abi, &legacy)?;
        let former = rules::former(&prepared.templates, &inherited.cgroups);
        let mut daemon = Daemon::assemble(prepared, pilot, state_file, (egress, problems), &former);
        daemon.kept = kept;
        let passed_ns = monotonic_ns().saturating_sub(inherited.started_ns);
        let started = Instant::now().checked_sub(Duration::from_nanos(passed_ns));
        daemon.started = started.unwrap_or(daemon.started);
        daemon.saves.saved_ns = inherited.saved_ns;
        let was_told = |trouble: &Trouble| inherited.told.iter().any(|word| word == trouble.word());
        daemon.told = Trouble::ALL.into_iter().filter(was_told).collect();
        daemon.off.clone_from(&inherited.off);
        daemon.upgrade = Upgrade::new(times);
        daemon.open_learning()?;
        if let (Some(learning), Some(counts)) = (&daemon.learning, &inherited.counts) {
            learning.go_on(counts.clone());
        }
        Ok((daemon, legacy))
    }

    /// Replaces the running BPF programs by its own.
    pub(super) fn replace_programs(&mut self, legacy: Legacy) -> Result<(), Failure> {
        let cgroup = self.cgroup.clone();
        self.pilot.replace(legacy, &cgroup)?;
        self.begin_learning()?;
        self.watch_traffic();
        self.watch_netns();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            arms = self.arms.join(","),
            dry_run = self.config.dry_run,
            "upgraded, attached all the while"
        );
        Ok(())
    }
}

/// Becomes a program that starts from the state file, after everything of this daemon is gone. Returns only
/// on failure, with the reason.
pub(super) fn start_anew(successor: &Successor, times: Upgrades, listener: &Listener) -> Failure {
    let mut command = command(&successor.program);
    let listener = listener.descriptor();
    let hand_over = HandOver {
        listener,
        ..HandOver::new(times)
    };
    let error = match hand_over.tell(&mut command) {
        Ok(told) => {
            let left: Vec<i32> = listener.into_iter().chain([told.as_raw_fd()]).collect();
            become_program(command, &left)
        }
        Err(error) => error,
    };
    Failure::new(
        Kind::Failed,
        format!("{} cannot be started: {error}", successor.program.display()),
        "start it again",
    )
}
