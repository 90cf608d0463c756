//! The maps of the learner, and the daemon's ends of them.

use std::{
    hash::{BuildHasher, RandomState},
    os::fd::{AsFd, OwnedFd},
};

use libbpf_rs::{MapHandle, ProgramMut};
use serde::{Deserialize, Serialize};
use tcpilot_abi::{
    TP_ASSIGNMENTS, TP_CHOICE_DIST_WAYS, TP_CONN_START_WAYS, TP_LEARNER_EPSILON_GREEDY,
    TP_RECORDS_BYTES, TP_REFUSALS, tp_config,
};

use super::{
    AssignmentBuckets, ChoiceDists, ConnStarts, Costs, Heartbeat, Legacy, OpenSockopsSkel, Pilot,
    Records, Sampler, choice_dists::NodeSecrets,
};
use crate::{Error, object::map_error};

/// The keys to the learner's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerKeys {
    /// The kind of the learner (`enum tp_learner_kind`): choice distributions of another kind mean nothing to it.
    pub kind: u32,
    /// Buckets of the choice distributions.
    #[serde(rename = "rows")] // as earlier versions write and read it, at a take-over
    pub choice_dists: u32,
    /// Buckets of the starts of open connections.
    #[serde(rename = "openings")] // as above
    pub conn_starts: u32,
    /// Secrets of the choice distributions' tags.
    pub secrets: NodeSecrets,
}

/// The least and the most starts of open connections.
const CONN_STARTS: (u32, u32) = (1 << 16, 1 << 19);

impl LearnerKeys {
    /// New keys, for the choice distributions of this configuration. There is room for twice as many, because
    /// buckets do not fill evenly ([`super::Distributions::capacity`]). A host with more known paths has more
    /// connections, and gets room for more connection starts.
    pub(super) fn new(config: &tp_config) -> LearnerKeys {
        let random = RandomState::new();
        let (least, most) = CONN_STARTS;
        let conn_starts =
            config.choice_dists.clamp(least, most).next_power_of_two() / TP_CONN_START_WAYS;
        let choice_dists = config.choice_dists.div_ceil(TP_CHOICE_DIST_WAYS / 2).max(1);
        let secret = |half: usize| std::array::from_fn(|number| random.hash_one((half, number)));
        LearnerKeys {
            kind: config.learner.kind,
            choice_dists,
            conn_starts,
            secrets: std::array::from_fn(secret),
        }
    }

    /// The same with the memory of a former pilot: its secrets, and its sizes if the same kind of learner
    /// goes on with its choice distributions.
    pub(super) fn with_secrets_of(self, former: Option<LearnerKeys>) -> LearnerKeys {
        match former {
            Some(former) if former.kind == self.kind => former,
            Some(former) => LearnerKeys {
                choice_dists: self.choice_dists,
                kind: self.kind,
                ..former
            },
            None => self,
        }
    }

    /// Whether the programs write the choice distributions, by the costs they keep.
    fn learns_in_kernel(&self) -> bool {
        self.kind == TP_LEARNER_EPSILON_GREEDY
    }

    /// The number of places for costs: one for each choice distribution, if the programs learn.
    fn costs(&self) -> u32 {
        match self.learns_in_kernel() {
            true => self.choice_dists * TP_CHOICE_DIST_WAYS,
            false => 1,
        }
    }
}

/// The learner's descriptors by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerDescriptors {
    /// Choice distributions, costs, assignments, starts of open connections, records, connections with
    /// losses, paths on which a rescue did not help.
    pub maps: [i32; 7],
}

/// The learner's ends of the memory shared with the programs, to be moved to its thread. They
/// outlive the pilot, but get no records then.
pub struct Ends {
    /// The probabilities of the algorithms.
    pub choice_dists: ChoiceDists,
    /// The records of connections.
    pub records: Records,
    /// The heartbeat: without it no choice distribution is valid.
    pub heartbeat: Heartbeat,
    /// Which connections are held out.
    pub assignment_buckets: AssignmentBuckets,
    /// Reports open connections, and moves them.
    pub sampler: Sampler,
    /// Counts open connections by path.
    pub conn_starts: ConnStarts,
    /// The memory of epsilon-greedy; `None` with another learner.
    pub costs: Option<Costs>,
}

impl Pilot {
    /// The learner's ends. Ask for them only once: the records have a single reader.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel does not share its memory.
    pub fn learner_ends(&mut self) -> Result<Ends, Error> {
        let keys = self.keys.learner;
        let maps = &self.skel.maps;
        let status = maps.bss_learner.as_fd();
        let action = "attach the iterator over long connections";
        let link = link_of(&self.skel.progs.sample, action)?;
        let moves = MapHandle::try_from(&maps.moves).map_err(map_error(action))?;
        let costs = match keys.learns_in_kernel() {
            true => Some(Costs::new(&maps.costs, &self.skel.progs.put_costs, &keys)?),
            false => None,
        };
        let action = "read the starts of open connections";
        let starts = MapHandle::try_from(&maps.openings).map_err(map_error(action))?;
        Ok(Ends {
            choice_dists: ChoiceDists::new(
                maps.rows.as_fd(),
                keys.choice_dists,
                keys.secrets,
                status,
            )?,
            records: Records::new(maps.records.as_fd(), TP_RECORDS_BYTES as usize, status)?,
            heartbeat: Heartbeat::new(status)?,
            assignment_buckets: AssignmentBuckets::new(maps.bss_cells.as_fd(), status)?,
            sampler: Sampler::new(link, moves),
            conn_starts: ConnStarts::new(starts, keys.secrets),
            costs,
        })
    }
}

/// Attaches an iterator.
pub(super) fn link_of(program: &ProgramMut<'_>, action: &'static str) -> Result<OwnedFd, Error> {
    let link = program.attach().map_err(map_error(action))?;
    // libbpf closes its own descriptor with the value.
    let link = link.as_fd().try_clone_to_owned();
    link.map_err(|source| Error::System { action, source })
}

/// Gives the learner's maps enough room, or replaces them by those of a running pilot.
pub(super) fn size_maps(
    open: &mut OpenSockopsSkel<'_>,
    learner: &LearnerKeys,
    legacy: Option<&Legacy>,
) -> Result<(), Error> {
    let maps = &mut open.maps;
    match legacy {
        Some(legacy) => legacy.put_learner_into(maps, learner)?,
        None => {
            let sized = [
                maps.openings.set_max_entries(learner.conn_starts),
                maps.draws.set_max_entries(TP_ASSIGNMENTS),
                maps.records.set_max_entries(TP_RECORDS_BYTES),
                maps.refusals.set_max_entries(TP_REFUSALS),
            ];
            sized
                .into_iter()
                .collect::<Result<(), _>>()
                .map_err(Error::Load)?;
        }
    }
    if legacy.is_some_and(|legacy| legacy.learner().kind == learner.kind) {
        return Ok(());
    }
    let sized = [
        maps.rows.set_max_entries(learner.choice_dists),
        maps.costs.set_max_entries(learner.costs()),
    ];
    sized
        .into_iter()
        .collect::<Result<(), _>>()
        .map_err(Error::Load)
}
