//! Makes a daemon from a configuration.

use std::{path::PathBuf, time::Instant};

use tcpilot_abi::{TP_MAX_ARMS, tp_config, tp_rule};
use tcpilot_config::{Config, RuleTemplate, has_several_ways_out};
use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_kernel::{Pilot, host, own_netns_cookie, wall_clock::Now};
use tcpilot_show::failure::{Failure, Kind};

use super::{
    Daemon, attachment, egress::Egress, fleet, inherited::Numbers, listener::Listener, netns,
    netns_end::Ended, rules, saving::Saves, state_file::StateFile, upgrade::Upgrade,
    uplink::Uplinks, usable_arms,
};
use crate::args::RunArgs;

/// A configuration, and everything derived from it on this host.
pub(super) struct Prepared {
    pub config: Config,
    pub abi: tp_config,
    pub arms: usable_arms::Arms,
    pub templates: Vec<RuleTemplate>,
    root: PathBuf,
    cgroup: PathBuf,
}

impl Prepared {
    /// The secrets for dividing addresses into hold-out groups: the fleet's, or this host's.
    pub fn assignment_secrets(&self, state_file: &mut StateFile) -> AssignmentSecrets {
        match fleet::shared_secrets(self.config.fleet.as_ref()) {
            Ok(Some(shared)) => shared,
            // `Fleet` reports the problem.
            Ok(None) | Err(_) => state_file.secrets(),
        }
    }

    /// Loads the algorithms. `numbers` are those of a running daemon, because its maps contain them.
    pub fn new(
        mut config: Config,
        args: &RunArgs,
        numbers: Option<&Numbers>,
    ) -> Result<Prepared, Failure> {
        config.dry_run |= args.dry_run;
        for warning in config.warnings() {
            tracing::warn!("{warning}");
        }
        super::resolve_defaults(&mut config);
        let held = usable_arms::stand_in(&mut config)?;
        config.decide_interfaces(has_several_ways_out());
        let root = host::cgroup2_root()?;
        let cgroup = args.cgroup.clone().unwrap_or_else(|| root.clone());
        if numbers.is_none() {
            host::cgroup_id(&cgroup)?; // after an upgrade the daemon waits for a missing cgroup instead
        }
        let mut arms = usable_arms::make_usable(&config.algorithms, held)?;
        if let Some(numbers) = numbers {
            number_as(&mut config, &mut arms.present, numbers)?;
        }
        let mut abi = config.to_abi(&arms.present);
        abi.host_netns = own_netns_cookie()?;
        arms.missing.extend(usable_arms::check_rescue(
            &config,
            &mut abi,
            &mut arms.held,
        )?);
        if !host::raises_receive_windows() {
            for tuning in abi.tuning.iter_mut().flatten() {
                tuning.rwnd_most_bytes = tuning.rwnd_most_bytes.min(u16::MAX.into());
            }
        }
        let templates = config.rules();
        for warning in rules::warnings(&templates, &root) {
            tracing::warn!("{warning}");
        }
        Ok(Prepared {
            templates,
            config,
            abi,
            arms,
            root,
            cgroup,
        })
    }

    /// The devices on which acknowledgements go first.
    pub fn devices(&self) -> &[String] {
        match self.config.tuning.ack_priority && !self.config.dry_run {
            true => &self.config.tuning.ack_priority_devices,
            false => &[],
        }
    }
}

/// Keeps the numbers of known algorithms and policies, and gives new ones further numbers.
fn number_as(
    config: &mut Config,
    arms: &mut Vec<String>,
    numbers: &Numbers,
) -> Result<(), Failure> {
    let too_many = |what: String| {
        let message = format!("{what}, counted with those that tcpilot had since it was started");
        Failure::new(Kind::Usage, message, "restart it")
    };
    let mut all = numbers.arms.clone();
    all.extend(
        arms.iter()
            .filter(|arm| !numbers.arms.contains(arm))
            .cloned(),
    );
    if all.len() > TP_MAX_ARMS as usize {
        let count = all.len();
        return Err(too_many(format!(
            "{count} algorithms are more than {TP_MAX_ARMS}"
        )));
    }
    *arms = all;
    config
        .number_as(&numbers.policies)
        .map_err(|more| too_many(format!("the policies are {more} too many")))
}

impl Daemon {
    /// Makes the daemon and loads the pilot, but does not attach it yet.
    pub(super) fn start(config: Config, args: &RunArgs) -> Result<Daemon, Failure> {
        let mut prepared = Prepared::new(config, args, None)?;
        let mut state_file = StateFile::open(&args.state, Now::read())?;
        prepared.abi.assignment_secrets = prepared.assignment_secrets(&mut state_file);
        let queues = Egress::set_up(prepared.devices(), &args.state);
        let pilot = Pilot::load(&prepared.abi, prepared.config.paths_max)?;
        let mut daemon = Daemon::assemble(prepared, pilot, state_file, queues, &[]);
        daemon.open_learning()?;
        daemon.restore();
        for line in daemon.arms_missing.iter().chain(&daemon.kept_default()) {
            tracing::warn!("{line}");
        }
        if !host::may_enter_netns() {
            tracing::info!(
                "without CAP_SYS_ADMIN, flows and explain list only the connections of this network \
                 namespace; choosing and learning work in all"
            );
        }
        Ok(daemon)
    }

    /// Makes the daemon from its parts. `problems` are the failures of `egress`, and `former` the rules in
    /// force before.
    pub(super) fn assemble(
        prepared: Prepared,
        mut pilot: Pilot,
        state_file: StateFile,
        (egress, problems): (Egress, Vec<String>),
        former: &[tp_rule],
    ) -> Daemon {
        let Prepared {
            config,
            abi,
            arms,
            templates,
            root,
            cgroup,
        } = prepared;
        if cgroup != root {
            if let Ok(id) = host::cgroup_id(&cgroup) {
                pilot.set_cgroup(id);
            }
        }
        let rules = rules::resolve(&templates, &root, former);
        pilot.set_rules(&rules);
        Daemon {
            pilot,
            abi,
            arms: arms.present,
            arms_missing: arms.missing.into_iter().chain(problems).collect(),
            held: arms.held,
            kept: arms.shared,
            templates,
            rules,
            netns: netns::Names::default(),
            ended: Ended::default(),
            changes: attachment::Changes::beside(&cgroup),
            gone_since: None,
            cgroup,
            saves: Saves::new(state_file),
            learning: None,
            started: Instant::now(),
            told: Vec::new(),
            _egress: egress,
            off: Vec::new(),
            guard: super::guard::Guard::default(),
            fleet: config.fleet.clone().map(super::fleet::Fleet::new),
            config,
            upgrade: Upgrade::default(),
            uplinks: Uplinks::default(),
            traffic: None,
            unshared: None,
            listener: Listener::UNWANTED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn numbered(arms: &[&str], text: &str) -> Result<(Vec<String>, Config), Failure> {
        let numbers = Numbers {
            arms: names(&["cubic", "bbr"]),
            policies: names(&["first", "second"]),
        };
        let mut config = Config::from_toml(text, "t").unwrap();
        let mut arms = names(arms);
        number_as(&mut config, &mut arms, &numbers).map(|()| (arms, config))
    }

    #[test]
    fn algorithms_and_policies_keep_their_numbers() {
        let text =
            "[[policy]]\nname = \"third\"\n[[policy]]\nname = \"second\"\nleave_alone = true";
        let (arms, config) = numbered(&["vegas", "bbr"], text).unwrap();
        assert_eq!(arms, ["cubic", "bbr", "vegas"]);
        let ids = ["first", "second", "third"].map(|name| config.policy_id(name).unwrap());
        assert_eq!(ids, [2, 3, 4]);
        assert_eq!(
            ids.map(|id| config.policy_name(id).unwrap()),
            ["first", "second", "third"]
        );
        let abi = config.to_abi(&arms);
        assert_eq!([2, 3, 4].map(|id| abi.policy[id].leave_alone), [0, 1, 0]);
        let order: Vec<u8> = config.rules().iter().map(|rule| rule.rule.policy).collect();
        assert_eq!(order, [4, 3], "they are tried in the order of the file");
    }

    #[test]
    fn more_than_there_is_room_for_are_refused() {
        let arms = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(numbered(&arms[..6], "").unwrap().0.len(), 8);
        let failure = numbered(&arms, "").err().unwrap();
        assert!(failure.to_string().ends_with("; restart it"), "{failure}");
        let many: String = (0..13)
            .map(|n| format!("[[policy]]\nname = \"p{n}\"\n"))
            .collect();
        assert!(numbered(&[], &many).is_err());
    }
}
