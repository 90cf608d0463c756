//! The daemon's answers to questions.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, Write},
    path::Path,
};

use serde::Serialize;
use tcpilot_abi::{Trouble, Why, Withheld, tp_counters};
use tcpilot_core::Prefix;
use tcpilot_kernel::clock::monotonic_ns;
use tcpilot_kernel::host;
use tcpilot_netlink::device::name_of;

use super::{
    Daemon, eligible,
    fleet::Fleet,
    learning::{KnownPath, LONGEST_TRIAL_S, Learning, Netns, no_fleet},
    netns::HOST,
    traffic::Traffic,
};
use crate::{
    figures::{
        AddressView, Busiest, EffectReport, ExplainedPath, Explanation, FleetReport, FlowView,
        LearningStatus, PathView, RescueStatus, Status, Upgrades,
    },
    protocol::{Reply, Request},
    read::{self, Names},
    report, table,
};

/// Why there is no report, if nothing else is known.
const NO_ANSWER: &str = "the learner does not answer";

/// Names already looked up.
#[derive(Default)]
struct OriginNames {
    netns: HashMap<Netns, String>,
    interfaces: HashMap<u16, Option<String>>,
}

/// So many paths of each policy are looked at for the greatest gain: a host may have a million.
const BUSIEST: usize = 256;
/// Addresses with the greatest gain in `status`.
const GAINS: usize = 5;

/// The namespace's name for a path shared by all namespaces.
const ALL_NETNS: &str = "all";

fn ok(value: impl Serialize) -> Reply {
    match serde_json::to_value(value) {
        Ok(value) => Reply::Ok(value),
        Err(error) => Reply::Error(error.to_string()),
    }
}

fn result<T: Serialize>(value: Result<T, String>) -> Reply {
    value.map_or_else(Reply::Error, ok)
}

/// The name of an interface; its number in another namespace than the daemon's own. `None` for 0: there is none.
fn interface_of(index: u16, netns: &str) -> Option<String> {
    match index {
        0 => None,
        index if netns == HOST => name_of(index.into()),
        index => Some(index.to_string()),
    }
}

impl Daemon {
    /// Writes the answer to one question.
    pub(super) fn answer(&mut self, request: Request, out: &mut dyn Write) -> io::Result<()> {
        self.netns.refresh();
        let reply = match request {
            Request::Paths => {
                return Reply::write_list(out, |each| self.for_each_view(|view| each(&view)));
            }
            Request::Status => ok(self.status()),
            Request::Busiest(most) => ok(self.busiest(most)),
            Request::Flows => result(self.flow_views()),
            Request::Explain(remote) => result(self.explain(&remote)),
            Request::Report => ok(self.report()),
            Request::FleetReport => ok(self.fleet_report()),
            Request::Trial(seconds) => result(self.begin_trial(seconds)),
            Request::StateExport => return self.export(out),
            Request::StateImport(paths) => result(self.import(&paths)),
            Request::StateReset => result(self.reset()),
            Request::Upgrade(program) => result(self.begin_upgrade(&program)),
        };
        reply.write(out)
    }

    /// Starts an upgrade; the answer has the counts of earlier ones.
    fn begin_upgrade(&mut self, program: &Path) -> Result<Upgrades, String> {
        if self.upgrade.is_under_way() {
            return Err("an upgrade is under way; try again".to_owned());
        }
        let before = self.upgrade.times.clone();
        self.try_successor(program);
        Ok(before)
    }

    pub(super) fn with_names<T>(&self, f: impl FnOnce(&Names<'_>) -> T) -> T {
        f(&Names {
            arms: &self.arms,
            policy: &|id| self.policy_name(id),
            netns: &|inum| self.netns.name(inum),
            now_ns: monotonic_ns(),
            config: &self.abi,
        })
    }

    pub(super) fn policy_name(&self, id: u8) -> String {
        self.config.policy_name(id).unwrap_or("?").to_owned()
    }

    fn rescue_name(&self) -> Option<String> {
        let name = self.config.rescue.algorithm.as_ref()?.to_string();
        (self.abi.rescue_cc[0] != 0).then_some(name)
    }

    /// Calls `each` with every path.
    ///
    /// # Errors
    /// Some paths could not be read, and are missing.
    fn for_each_view(&self, mut each: impl FnMut(PathView)) -> io::Result<()> {
        let mut names = OriginNames::default();
        match &self.learning {
            Some(learning) => learning.for_each_path(|seen| each(self.named(seen, &mut names))),
            None => Ok(()),
        }
    }

    /// The view of a path with the names of its namespace and interface. `names` keeps them, because each
    /// look-up takes a while.
    fn named(&self, seen: KnownPath, names: &mut OriginNames) -> PathView {
        let netns = match seen.netns {
            None => ALL_NETNS.to_owned(),
            Some(netns) => names
                .netns
                .entry(netns)
                .or_insert_with(|| self.netns_of(netns))
                .clone(),
        };
        let interface = match seen.egress {
            index if netns == HOST => {
                let known = names.interfaces.entry(index);
                known.or_insert_with(|| interface_of(index, HOST)).clone()
            }
            index => interface_of(index, &netns),
        };
        let mut view = PathView {
            netns,
            interface,
            ..seen.view
        };
        if let Some(has_ecn) = seen.has_ecn {
            eligible::mark(&mut view, has_ecn, &self.abi, &self.config, &self.arms);
        }
        view
    }

    fn netns_of(&self, netns: Netns) -> String {
        match netns {
            Netns::Cookie(cookie) => self.netns.by_cookie(cookie),
            Netns::Domain(domain) => self.netns.by_domain(domain),
        }
    }

    /// All paths, the most recently used first.
    pub(super) fn path_views(&self) -> Vec<PathView> {
        let mut views = Vec::new();
        if let Err(error) = self.for_each_view(|view| views.push(view)) {
            tracing::warn!(%error, "not all paths could be read");
        }
        PathView::sort(&mut views);
        views
    }

    /// The paths with the most connections, at most so many of each policy.
    fn busiest_paths(&self) -> Vec<PathView> {
        let mut names = OriginNames::default();
        let busiest = self.learning.as_ref().map(|l| l.busiest(BUSIEST));
        let paths = busiest.into_iter().flatten();
        paths.map(|seen| self.named(seen, &mut names)).collect()
    }

    /// The addresses with the most connections.
    fn busiest(&self, most: usize) -> Busiest {
        let paths = self.busiest_paths();
        let mut addresses = AddressView::all(&paths, table::path_name);
        addresses.sort_by_key(|address| std::cmp::Reverse(address.connections));
        addresses.truncate(most);
        let shown: HashSet<&str> = addresses.iter().map(|view| view.path.as_str()).collect();
        let is_shown = |path: &&PathView| shown.contains(table::path_name(path).as_str());
        let paths = paths.iter().filter(is_shown).count() as u64;
        Busiest { addresses, paths }
    }

    /// The addresses with the greatest gain, see [`Status::gains`].
    fn gains(&self) -> Vec<AddressView> {
        let mut all = AddressView::all(&self.busiest_paths(), table::path_name);
        all.retain(|address| address.gain() > 0);
        all.sort_by_key(|address| std::cmp::Reverse((address.sure, address.gain())));
        all.truncate(GAINS);
        all
    }

    fn flow_views(&self) -> Result<Vec<FlowView>, String> {
        let flows = self.pilot.flows().map_err(|e| e.to_string())?;
        Ok(self.with_names(|names| flows.iter().map(|f| names.flow(f)).collect()))
    }

    /// Explains an address, or all addresses of a prefix.
    fn explain(&self, remote: &Prefix) -> Result<Explanation, String> {
        let flows = self.pilot.flows().map_err(|e| e.to_string())?;
        let mut explanation = Explanation {
            address: remote.to_string(),
            stopped: self.learning.as_ref().and_then(|l| l.stopped(*remote)),
            paths: Vec::new(),
            flows: Vec::new(),
        };
        self.with_names(|names| {
            let to_address = flows
                .iter()
                .filter(|f| remote.contains(read::address(f.remote)));
            explanation.flows = to_address.map(|f| names.flow(f)).collect();
        });
        if let Some(learning) = &self.learning {
            let mut names = OriginNames::default();
            let known = learning.explain(*remote).into_iter();
            explanation.paths.extend(known.map(|seen| ExplainedPath {
                decisions: seen.decisions.clone(),
                tuning: None,
                path: self.named(seen, &mut names),
            }));
        }
        self.add_tunings(remote, &mut explanation.paths)?;
        Ok(explanation)
    }

    /// Adds the state of the tunings to the paths of the answer. Tunings have a table of paths of their own.
    fn add_tunings(&self, remote: &Prefix, paths: &mut Vec<ExplainedPath>) -> Result<(), String> {
        let mut only_tuned = Vec::new();
        let last_loss_ns = self.pilot.last_loss_ns();
        let read = self.with_names(|names| {
            self.pilot.for_each_slot(|number, key, path| {
                let tuned = self.pilot.tuned(number, &path).ok().flatten();
                let prefix = Prefix::from_key(&key).filter(|prefix| prefix.covers(remote));
                let (Some(tuned), Some(prefix)) = (tuned, prefix) else {
                    return;
                };
                let policy = self.policy_name(key.policy);
                let netns = (names.netns)(path.netns_inum);
                let interface = interface_of(key.egress, &netns);
                let is_its = |one: &&mut ExplainedPath| {
                    one.tuning.is_none()
                        && one.path.policy == policy
                        && [ALL_NETNS, netns.as_str()].contains(&one.path.netns.as_str())
                        && prefix.covers(&one.path.prefix)
                        && (key.egress == 0 || one.path.interface == interface)
                };
                let tuning = Some(names.tuning(&key, &path, &tuned, last_loss_ns));
                match paths.iter_mut().find(is_its) {
                    Some(explained) => explained.tuning = tuning,
                    // Its connections were too small to learn from.
                    None => {
                        only_tuned.extend(names.tuned_path(&key, &path).map(|path| ExplainedPath {
                            path: PathView { interface, ..path },
                            decisions: Vec::new(),
                            tuning,
                        }))
                    }
                }
            })
        });
        paths.extend(only_tuned);
        read.map(drop).map_err(|error| error.to_string())
    }

    /// The algorithms in use, without those of a former configuration only.
    fn wanted_arms(&self) -> Vec<String> {
        let wanted = |name: &&String| {
            self.config
                .algorithms
                .iter()
                .any(|arm| arm.as_str() == *name)
        };
        self.arms.iter().filter(wanted).cloned().collect()
    }

    /// The number of paths of the learner; 0 if it does not answer.
    fn known_paths(learning: Option<&LearningStatus>) -> u32 {
        learning.map_or(0, |learning| learning.paths.try_into().unwrap_or(u32::MAX))
    }

    /// The report on whether steering helps.
    pub(super) fn report(&self) -> EffectReport {
        let known = self.learning.as_ref().and_then(Learning::effect);
        known.unwrap_or_else(|| self.no_report())
    }

    /// Why there is no report.
    fn no_report(&self) -> EffectReport {
        let why = match self.config.dry_run {
            true => "in a dry run nothing is steered",
            false => NO_ANSWER,
        };
        EffectReport {
            unknown: Some(why.to_owned()),
            ..EffectReport::default()
        }
    }

    /// The report on whether the fleet helps.
    fn fleet_report(&self) -> FleetReport {
        let known = self.learning.as_ref().and_then(Learning::fleet_effect);
        known.unwrap_or_else(|| FleetReport {
            unknown: Some(no_fleet(&self.config).unwrap_or(NO_ANSWER).to_owned()),
            ..FleetReport::default()
        })
    }

    fn begin_trial(&self, seconds: u64) -> Result<(), String> {
        if seconds > LONGEST_TRIAL_S {
            return Err("a trial lasts at most 31 days".to_owned());
        }
        let report = self.report();
        let begun = self
            .learning
            .as_ref()
            .is_some_and(|l| l.begin_trial(seconds));
        let why = || report.unknown.unwrap_or_default();
        if begun { Ok(()) } else { Err(why()) }
    }

    /// The present problems, a sentence each.
    fn problems(&self, learner_answers: bool) -> Vec<String> {
        let of_learner = self
            .learning
            .iter()
            .flat_map(|learner| match learner_answers {
                true => learner.limits(),
                false => Learning::hangs(),
            });
        let unsaved = self.saves.state_file.problem().map(str::to_owned);
        let refused = self.upgrade.times.problems.iter();
        let refused = refused.map(|p| format!("not upgraded, all goes on as before: {p}"));
        let troubles = Trouble::ALL
            .into_iter()
            .zip(self.pilot.counters().trouble)
            .filter(|(_, n)| *n > 0)
            .map(|(t, n)| format!("{} ({n} times)", t.sentence()));
        self.kept_default()
            .into_iter()
            .chain(of_learner)
            .chain(unsaved)
            .chain(self.unshared.clone())
            .chain(self.listener.problem())
            .chain(self.fleet.iter().flat_map(Fleet::problems))
            .chain(refused)
            .chain(troubles)
            .collect()
    }

    /// The answer to `status`.
    pub(super) fn status(&self) -> Status {
        let counters = self.pilot.counters();
        let stats = self.pilot.run_stats();
        let connections: BTreeMap<String, u64> = Why::ALL
            .into_iter()
            .zip(counters.connections)
            .map(|(why, n)| (why.word().to_owned(), n))
            .collect();
        // Asked first: if the learner is too busy for this, the other questions would only wait as long again.
        let learning = self.learning.as_ref().and_then(Learning::status);
        let answers = learning.is_some();
        let report = match answers {
            true => self.report(),
            false => self.no_report(),
        };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            kernel: host::kernel_release(),
            cgroup: self.cgroup.display().to_string(),
            uptime_s: self.started.elapsed().as_secs(),
            dry_run: self.config.dry_run,
            attached: self.pilot.is_attached(),
            learner: self.config.learner.common.kind.name().to_owned(),
            learning: learning.clone(),
            effect: self.learning.as_ref().map(|_| report::line(&report)),
            gains: match answers {
                true => self.gains(),
                false => Vec::new(),
            },
            algorithms: self.wanted_arms(),
            algorithms_missing: self.arms_missing.clone(),
            rescue: self.rescue_name(),
            paths: Daemon::known_paths(learning.as_ref()),
            paths_max: self.pilot.capacity(),
            connections,
            live_flows: self.learning.as_ref().map_or(0, |l| l.live().total()),
            closed: counters.closed,
            charged: learning.as_ref().map_or(0, |learning| learning.updates),
            rescues: counters.rescues,
            rescued: rescue_status(&counters),
            moves: counters.moves,
            degraded: self.problems(answers),
            tunings: self.tunings_status(),
            fleet: self.fleet.as_ref().map(Fleet::status),
            bpf_events: stats.events,
            bpf_ns: stats.nanoseconds,
            traffic: self.traffic.as_ref().and_then(Traffic::view),
            choice_dists_valid: self
                .learning
                .as_ref()
                .is_none_or(Learning::choice_dists_are_valid),
            choice_dists_expired: self.learning.as_ref().map_or(0, Learning::times_stale),
            resident_bytes: resident_bytes(),
            state: self.saves.state_file.path().display().to_string(),
            take_overs: self.upgrade.times.clone(),
        }
    }
}

/// The counts of rescues.
fn rescue_status(counters: &tp_counters) -> RescueStatus {
    let withheld = Withheld::ALL.into_iter().zip(counters.withheld);
    RescueStatus {
        helped: counters.rescues_helped,
        undone: counters.rescues_undone,
        own_losses: counters.own_losses,
        withheld: withheld
            .map(|(why, count)| (why.word().to_owned(), count))
            .collect(),
    }
}

/// Resident memory of this process, from /proc/self/statm; 0 if unreadable.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
