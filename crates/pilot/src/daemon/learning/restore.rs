//! Makes learners from a configuration and saved knowledge, and gives the knowledge to save.

use std::collections::HashSet;

use tcpilot_abi::{TP_MAX_POLICIES, tp_config};
use tcpilot_config::{Config, Hear};
use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_learner::{Level, learner::key_bytes, saved_at_s, saved_domain};

use super::{
    arms::Arms,
    clock::Clock,
    effect::{self, Saved},
    greedy::{Greedy, costs_at_s, domain_of_costs},
    learners::Learners,
    measures::Windows,
    policy_learner::{MoveTerms, PolicyLearner, PolicySettings},
};
use crate::state::{Boot, Knowledge, StateError, Store, is_of_costs};

/// Maximum number of a policy's rows per save: a megabyte. The allocator keeps the memory of a save.
const PAGE: usize = if cfg!(test) { 16 } else { 4096 };

/// Maximum number of rows of paths taken up, and of nodes above them, for each path that the learner has room for. A file can
/// have more, for instance after `paths_max` was lowered: the learner would need memory for all of them at once before it
/// forgets most.
const ROWS_PER_PATH: usize = 2;

/// Learners with the saved knowledge.
pub struct Restored {
    pub(super) policies: Vec<PolicyLearner>,
    pub(super) clock: Clock,
    pub(super) effect: Saved,
    pub(super) fleet: Saved,
    /// Whether at least one learner starts empty, so a former daemon's choice distributions no longer apply.
    pub(super) is_anew: bool,
    /// This boot and that of the file, if they differ.
    boots: Option<(Boot, Boot)>,
}

/// The algorithms of connections without a choice, the preferred one first. `host` is the default of the
/// daemon's own namespace.
fn defaults(config: &Config, host: Option<&str>) -> Vec<String> {
    let mut all: Vec<String> = config
        .replace_defaults
        .iter()
        .map(ToString::to_string)
        .collect();
    all.sort_by_key(|name| Some(name.as_str()) != host);
    all
}

/// The settings of each policy's learner. `host` is the default algorithm of the daemon's own namespace.
pub fn policy_settings(
    config: &Config,
    abi: &tp_config,
    names: &[String],
    host: Option<&str>,
    greedy: Option<&Greedy>,
) -> Vec<PolicySettings> {
    let defaults = defaults(config, host);
    let (keys, estimates) = (&config.learner.thompson, &config.learner.estimates);
    let settings = |policy: u8| {
        let name = config.policy_name(policy)?;
        let mut constants = config.learner.settings(config.objective_of(name));
        constants.memory.paths_max = config.paths_max as usize;
        let arms = Arms::of_policy(abi, policy, names, &defaults)?;
        // The losses of such a default show no queue, and the other arms take less than it.
        if abi.model_based >> arms.number(0) & 1 == 1 {
            constants.choice.shared_bonus = 0.0;
        }
        Some(PolicySettings {
            kind: config.learner.common.kind,
            arms,
            name: name.to_owned(),
            policy,
            constants,
            greedy: greedy.cloned(),
            rescue_cost: f64::from(estimates.rescue_cost_percent) / 100.0,
            windows: Windows {
                window_s: config.learner.common.window_s,
                ssthresh_s: config.ssthresh.window_s,
                ssthresh_floor: config.ssthresh.floor_packets,
            },
            steer_percent: keys.steer_percent,
            uses_fleet: greedy.is_none()
                && config
                    .fleet
                    .as_ref()
                    .is_some_and(|fleet| fleet.hear == Hear::On),
            moves: (keys.move_long && !config.dry_run).then(|| MoveTerms {
                gain: (f64::from(keys.move_gain_percent) / 100.0).ln_1p(),
                every_ns: u64::from(keys.move_every_s) * 1_000_000_000,
            }),
        })
    };
    (0..TP_MAX_POLICIES as u8).filter_map(settings).collect()
}

impl Restored {
    /// Reads the saved knowledge about these policies; `store` is `None` if there is no file now. The
    /// programs divide addresses into groups by `secrets`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn read(
        all: Vec<PolicySettings>,
        store: Option<&Store>,
        secrets: AssignmentSecrets,
        clock: Clock,
    ) -> Result<Restored, StateError> {
        let now = Boot::present();
        let saved = store.map(Store::saved_boot).transpose()?.flatten();
        let mut restored = Restored {
            policies: Vec::new(),
            clock,
            effect: Saved::read(store, effect::POLICY)?.with_secrets(secrets),
            fleet: Saved::read(store, effect::FLEET)?.with_secrets(secrets),
            is_anew: false,
            boots: saved
                .filter(|saved| saved.id != now.id)
                .map(|saved| (now, saved)),
        };
        for settings in all {
            restored.add(settings, store)?;
        }
        Ok(restored)
    }

    fn add(&mut self, settings: PolicySettings, store: Option<&Store>) -> Result<(), StateError> {
        let name = settings.name.clone();
        let store = match store {
            Some(store) if has_rows(store, &settings)? => Some(store),
            _ => None,
        };
        // Costs stay in the file while another learner works.
        let has_costs = settings.greedy.is_some();
        let rows_max = settings.constants.memory.paths_max * ROWS_PER_PATH;
        let (mut skipped, mut ended) = (0, Vec::new());
        let boots = self.boots.as_ref();
        let rows = |each: &mut dyn FnMut(&[u8], &[u8])| {
            let Some(store) = store else { return Ok(()) };
            skipped = for_newest(store, &name, rows_max, |key, row| {
                if boots.is_some_and(|boots| is_of_ended_netns(key, boots)) {
                    ended.push(key.to_vec());
                } else if has_costs || !is_of_costs(key) {
                    each(key, row);
                }
            })?;
            Ok(())
        };
        let Some((mut policy, read)) = PolicyLearner::restore(settings, self.clock.now_s(), rows)?
        else {
            return Ok(());
        };
        self.is_anew |= policy.is_unsaved;
        policy.ended = ended;
        if skipped > 0 {
            policy.is_unsaved = true; // so the file forgets them, too
            tracing::warn!(
                "{skipped} older rows of policy {name} are forgotten: there is room for {} paths",
                policy.settings.constants.memory.paths_max
            );
        }
        if read.outdated > 0 {
            tracing::info!(
                "{} rows of policy {name} are for round trips that were told apart below 1 ms; those are \
                 one class now, which begins anew",
                read.outdated
            );
        }
        if read.damaged > 0 {
            let (damaged, rest) = (read.damaged, read.taken_up);
            tracing::warn!(
                "{damaged} rows of what was learned for policy {name} were damaged and are forgotten; \
                 {rest} were taken up"
            );
        } else if read.taken_up > 0 {
            let rows = read.taken_up;
            tracing::info!(policy = name, rows, "took up what was learned before");
        }
        if let Some(store) = store {
            policy.read_measures(store)?;
        }
        self.policies.push(policy);
        Ok(())
    }
}

/// Whether a saved row is of a namespace that ended with the file's boot.
fn is_of_ended_netns(key: &[u8], (now, saved): &(Boot, Boot)) -> bool {
    let domain = saved_domain(key).or_else(|| domain_of_costs(key));
    domain.is_some_and(|domain| !now.knows(domain, saved))
}

/// Calls `each` with the rows of a policy: of paths, and of nodes above them, at most the `most` newest; returns the number of the
/// others. A row without a time, such as a damaged one, is always among them.
fn for_newest(
    store: &Store,
    policy: &str,
    most: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<usize, StateError> {
    if store.row_count(policy)? <= most {
        store.for_each_row(policy, each)?;
        return Ok(0);
    }
    let (mut count, mut of_paths, mut of_nodes) = (0u32, Vec::new(), Vec::new());
    store.for_each_row(policy, |key, row| {
        let is_path = is_of_costs(key) || key.first() == Some(&(Level::Path as u8));
        let times = if is_path {
            &mut of_paths
        } else {
            &mut of_nodes
        };
        let at_s = saved_at_s(key, row).or_else(|| costs_at_s(key, row));
        times.extend(at_s.map(|at_s| (at_s, count)));
        count += 1;
    })?;
    let mut is_skipped = vec![false; count as usize];
    for times in [&mut of_paths, &mut of_nodes] {
        let skipped = times.len().saturating_sub(most);
        if skipped > 0 {
            times.select_nth_unstable_by(skipped - 1, |a, b| a.0.total_cmp(&b.0));
            let older = times.iter().take(skipped);
            older.for_each(|(_, number)| is_skipped[*number as usize] = true);
        }
    }
    let skipped = is_skipped.iter().filter(|is| **is).count();
    let mut is_skipped = is_skipped.into_iter();
    store.for_each_row(policy, |key, row| {
        if is_skipped.next() == Some(false) {
            each(key, row);
        }
    })?;
    Ok(skipped)
}

/// Whether there are saved rows of a policy, and they compare the same algorithms with the same default. Other
/// rows mean nothing here.
fn has_rows(store: &Store, settings: &PolicySettings) -> Result<bool, StateError> {
    let Some(arms) = store.known_arms(&settings.name)? else {
        match paths_of_costs(store, &settings.name)? {
            0 => {}
            paths => tracing::info!(
                "what an older version's epsilon-greedy learned for policy {} (paths: {paths}) is not taken up: \
                 learning begins anew",
                settings.name
            ),
        }
        return Ok(false);
    };
    let is_same = arms == settings.arms.names();
    if !is_same {
        tracing::warn!(
            "what was learned for policy {} compares {}, and now {} are to be compared: learning begins anew",
            settings.name,
            arms.join(", "),
            settings.arms.names().join(", ")
        );
    }
    Ok(is_same)
}

/// Paths of this policy with epsilon-greedy's knowledge. Paths used by tunings alone have no samples.
fn paths_of_costs(store: &Store, policy: &str) -> Result<usize, StateError> {
    let paths = store.load()?;
    let learned = paths
        .iter()
        .filter(|path| path.policy == policy && path.algorithms.iter().any(|arm| arm.samples > 0));
    Ok(learned.count())
}

impl Learners {
    /// The knowledge to save: all, or the changes since the last call. A long result comes in parts: call
    /// again for the rest.
    pub fn unsaved(&mut self, all: bool) -> Vec<Knowledge> {
        let policies = self
            .policies
            .iter_mut()
            .flat_map(|policy| policy.unsaved(all));
        let effect = self.effect.iter_mut().map(|effect| effect.unsaved(all));
        let fleet = self.fleet.iter_mut().map(|fleet| fleet.unsaved(all));
        policies.chain(effect).chain(fleet).collect()
    }

    /// Forgets everything; returns the number of paths.
    pub fn reset(&mut self) -> u32 {
        self.table.clear();
        if let Some(effect) = &mut self.effect {
            effect.reset();
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.reset();
        }
        let now_s = self.clock.now_s();
        let mut paths = 0;
        if let Some(greedy) = self
            .policies
            .iter()
            .find_map(|policy| policy.settings.greedy.as_ref())
        {
            greedy.memory.clear();
        }
        for policy in &mut self.policies {
            paths += policy.learner.path_count();
            if let Some(anew) = PolicyLearner::anew(policy.settings.clone(), now_s) {
                *policy = anew;
            }
        }
        paths.try_into().unwrap_or(u32::MAX)
    }
}

/// Stands for the name of a policy in the table of the learner's rows, for the measures of its paths. Names of
/// policies have no slash.
fn measures_of(policy: &str) -> String {
    format!("/measures/{policy}")
}

impl PolicyLearner {
    /// The rows of the learner, and the measures of the paths among them.
    fn unsaved(&mut self, all: bool) -> [Knowledge; 2] {
        let is_all = all || std::mem::take(&mut self.is_unsaved);
        let of = |policy: String| Knowledge {
            policy,
            arms: self.settings.arms.names().to_vec(),
            is_all,
            ..Knowledge::default()
        };
        let mut knowledge = of(self.settings.name.clone());
        let mut measures = of(measures_of(&self.settings.name));
        if is_all {
            self.learner.begin_anew();
        }
        let book = &self.measures;
        let is_done = self.learner.save_some(PAGE, &mut |key, row| match row {
            Some(row) => {
                knowledge.rows.push((key.to_vec(), row.to_vec()));
                let measured = book.row(key).map(|row| (key.to_vec(), row));
                measures.rows.extend(measured);
            }
            None => {
                knowledge.gone.push(key.to_vec());
                measures.gone.push(key.to_vec());
            }
        });
        for key in std::mem::take(&mut self.ended) {
            knowledge.gone.push(key.clone());
            measures.gone.push(key);
        }
        knowledge.has_more = !is_done;
        measures.has_more = !is_done;
        [knowledge, measures]
    }

    /// Takes up the saved measures of the paths, if they are of the same algorithms.
    fn read_measures(&mut self, store: &Store) -> Result<(), StateError> {
        let name = measures_of(&self.settings.name);
        if store.known_arms(&name)?.as_deref() != Some(self.settings.arms.names()) {
            return Ok(());
        }
        let known: HashSet<_> = self
            .learner
            .paths()
            .map(|path| key_bytes(&path).to_vec())
            .collect();
        let mut damaged = 0;
        store.for_each_row(&name, |key, row| {
            if known.contains(key) {
                damaged += u64::from(!self.measures.put(key, row));
            }
        })?;
        if damaged > 0 {
            let policy = &self.settings.name;
            tracing::warn!(
                "{damaged} measures of paths of policy {policy} were damaged and begin anew"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tcpilot_learner::{Lineage, bytes::Writer};

    use super::*;
    use crate::{
        daemon::learning::learners::tests::{learners_of, settings, update},
        state::SavedRow,
    };

    #[test]
    fn hosts_replaceable_default_comes_first() {
        let config = Config::from_toml("replace_defaults = [\"cubic\", \"reno\"]", "").unwrap();
        assert_eq!(defaults(&config, Some("reno")), ["reno", "cubic"]);
        assert_eq!(defaults(&config, Some("bbr")), ["cubic", "reno"]);
        assert_eq!(defaults(&config, None), ["cubic", "reno"]);
    }

    fn store(all: &[Knowledge]) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(&dir.path().join("state.db")).unwrap();
        store.save_knowledge(all).unwrap();
        (dir, store)
    }

    #[test]
    fn of_too_many_rows_the_newest_are_taken_up() {
        // All nodes are newer than all paths.
        let row = |number: u32| {
            let (level, shift) = [(Level::Path, 0), (Level::Group, 8)][number as usize / 100];
            let prefix = 0xffff_0800_0000 + (u128::from(number) << shift);
            let node = Lineage::of_prefix(prefix, 0, 0).node(level);
            let at_s = f64::from(number * 37 % 100 + number / 100 * 100);
            let mut row = Writer::new();
            row.f64(at_s);
            (key_bytes(&node).to_vec(), row.finish())
        };
        let mut rows: Vec<SavedRow> = (0..200).map(row).collect();
        rows.push((vec![0xff, 0], b"a head".to_vec()));
        let (_dir, store) = store(&[Knowledge {
            policy: "default".to_owned(),
            rows,
            ..Knowledge::default()
        }]);
        let taken = |most| {
            let (mut heads, mut times) = (0, Vec::new());
            let skipped = for_newest(&store, "default", most, |key, row| {
                match saved_at_s(key, row) {
                    Some(at_s) => times.push(at_s as u32),
                    None => heads += 1,
                }
            });
            times.sort_unstable();
            assert_eq!(heads, 1);
            (skipped.unwrap(), times)
        };
        let newest: Vec<u32> = (90..100).chain(190..200).collect();
        assert_eq!(taken(10), (180, newest));
        assert_eq!(taken(100), (0, (0..200).collect()));
        assert_eq!(taken(1000), (0, (0..200).collect()));
    }

    #[test]
    fn measures_of_unknown_paths_take_no_memory() {
        let (mut learners, _) = learners_of(settings(100), &[]);
        update(&mut learners, &["192.0.2.1", "198.51.100.1"], 4);
        let saved = learners.unsaved(true);
        let measures = saved
            .iter()
            .find(|one| one.policy == measures_of(&settings(100).name));
        let keys: Vec<_> = measures.unwrap().rows.iter().map(|row| &row.0).collect();
        assert_eq!(keys.len(), 2);
        let (_dir, store) = store(&saved);
        let mut policy = PolicyLearner::anew(settings(100), 0.0).unwrap();
        policy.read_measures(&store).unwrap();
        assert!(keys.iter().all(|key| policy.measures.row(key).is_none()));
    }

    #[test]
    fn choosing_policies_have_settings_with_their_objective() {
        let text = "[learner]\nkind = \"thompson\"\nrescue_cost_percent = 7\n[[policy]]\nname = \"a\"\n\
                    objective = \"latency\"\nalgorithms = [\"bbr\"]\n[[policy]]\nname = \"b\"\n\
                    leave_alone = true";
        let config = Config::from_toml(text, "").unwrap();
        let names = ["cubic", "bbr"].map(str::to_owned);
        let all = policy_settings(&config, &config.to_abi(&names), &names, Some("cubic"), None);
        let told = |settings: &PolicySettings| {
            (
                settings.name.clone(),
                settings.arms.names().join(" "),
                settings.constants.reward.beta,
            )
        };
        let told: Vec<_> = all.iter().map(told).collect();
        let default = ("default".to_owned(), "cubic bbr".to_owned(), 0.1);
        assert_eq!(told, [default, ("a".to_owned(), "bbr".to_owned(), 0.5)]);
        assert_eq!(
            (all[0].rescue_cost, all[0].constants.memory.paths_max),
            (0.07, 16384)
        );
        assert!(all.iter().all(|settings| settings.moves.is_none()));
    }

    #[test]
    fn moves_follow_the_setting_except_dry_run() {
        let moves = |more: &str| {
            let text = format!(
                "{more}\n[learner]\nkind = \"thompson\"\nmove_long = true\nmove_every_s = 60"
            );
            let config = Config::from_toml(&text, "").unwrap();
            let names = ["cubic", "bbr"].map(str::to_owned);
            policy_settings(&config, &config.to_abi(&names), &names, Some("cubic"), None)[0].moves
        };
        let terms = moves("").unwrap();
        assert!((terms.gain - 1.1f64.ln()).abs() < 1e-12, "{terms:?}");
        assert_eq!(terms.every_ns, 60_000_000_000);
        assert_eq!(moves("dry_run = true"), None);
    }
}
