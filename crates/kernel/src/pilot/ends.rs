//! The maps of the learner in the daemon, and the ends of them that it uses.

use std::{
    hash::{BuildHasher, RandomState},
    os::fd::{AsFd, OwnedFd},
};

use libbpf_rs::{MapHandle, ProgramMut};
use serde::{Deserialize, Serialize};
use tcpilot_abi::{TP_DRAWS, TP_OPENING_WAYS, TP_RECORDS_BYTES, TP_REFUSALS, TP_ROW_WAYS};

use super::{
    Cells, Heartbeat, Legacy, OpenSockopsSkel, Openings, Pilot, Records, Rows, Sampler,
    rows::RowSecrets,
};
use crate::{Error, object::map_error};

/// The keys to the learner's maps, if it works in the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerKeys {
    /// Buckets of the rows.
    pub rows: u32,
    /// Buckets of the notes of open connections.
    pub openings: u32,
    /// Secrets of the rows' tags.
    pub secrets: RowSecrets,
}

/// The least and the most notes of open connections.
const OPENINGS: (u32, u32) = (1 << 16, 1 << 19);

impl LearnerKeys {
    /// New keys, for so many rows. There is room for twice as many, because buckets do not fill evenly
    /// ([`super::Rows::capacity`]). A host that knows more paths has more connections, and gets room
    /// for more notes.
    pub(super) fn new(rows: u32) -> LearnerKeys {
        let random = RandomState::new();
        let (least, most) = OPENINGS;
        let openings = rows.clamp(least, most).next_power_of_two() / TP_OPENING_WAYS;
        let rows = rows.div_ceil(TP_ROW_WAYS / 2);
        let secret = |half: usize| std::array::from_fn(|number| random.hash_one((half, number)));
        LearnerKeys {
            rows,
            openings,
            secrets: std::array::from_fn(secret),
        }
    }
}

/// The learner's descriptors by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerDescriptors {
    /// Rows, draws, notes of open connections, records, connections that lost packets, paths on which
    /// a rescue did not help.
    pub maps: [i32; 6],
    /// The keys to read them with.
    pub keys: LearnerKeys,
}

/// The learner's ends of the memory that it shares with the programs, to be moved to its thread. They
/// outlive the pilot, but get no records then.
pub struct Ends {
    /// The probabilities of the algorithms.
    pub rows: Rows,
    /// The records of connections.
    pub records: Records,
    /// The sign of life without which no row is valid.
    pub heartbeat: Heartbeat,
    /// Which connections are held out.
    pub cells: Cells,
    /// Reports open connections, and moves them.
    pub sampler: Sampler,
    /// Counts open connections by path.
    pub openings: Openings,
}

impl Pilot {
    /// The learner's ends; `None` if it does not work in the daemon. Ask for them only once: the
    /// records have a single reader.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel does not share its memory.
    pub fn learner_ends(&mut self) -> Result<Option<Ends>, Error> {
        let Some(keys) = self.learner else {
            return Ok(None);
        };
        let maps = &self.skel.maps;
        let pulse = maps.bss_learner.as_fd();
        let action = "attach the iterator over long connections";
        let link = link_of(&self.skel.progs.sample, action)?;
        let moves = MapHandle::try_from(&maps.moves).map_err(map_error(action))?;
        let action = "read the notes of open connections";
        let notes = MapHandle::try_from(&maps.openings).map_err(map_error(action))?;
        Ok(Some(Ends {
            rows: Rows::new(maps.rows.as_fd(), keys.rows, keys.secrets, pulse)?,
            records: Records::new(maps.records.as_fd(), TP_RECORDS_BYTES as usize, pulse)?,
            heartbeat: Heartbeat::new(pulse)?,
            cells: Cells::new(maps.bss_cells.as_fd(), pulse)?,
            sampler: Sampler::new(link, moves),
            openings: Openings::new(notes, keys.secrets),
        }))
    }
}

/// Attaches an iterator.
pub(super) fn link_of(program: &ProgramMut<'_>, action: &'static str) -> Result<OwnedFd, Error> {
    let link = program.attach().map_err(map_error(action))?;
    // libbpf closes its own descriptor with the value.
    let link = link.as_fd().try_clone_to_owned();
    link.map_err(|source| Error::System { action, source })
}

/// Gives the learner's maps the room that they need, or replaces them by those of a running pilot.
pub(super) fn size_maps(
    open: &mut OpenSockopsSkel<'_>,
    learner: &LearnerKeys,
    legacy: Option<&Legacy>,
) -> Result<(), Error> {
    let maps = &mut open.maps;
    if let Some(legacy) = legacy.filter(|legacy| legacy.learner().is_some()) {
        return legacy.put_learner_into(maps);
    }
    let sized = [
        maps.rows.set_max_entries(learner.rows),
        maps.openings.set_max_entries(learner.openings),
        maps.draws.set_max_entries(TP_DRAWS),
        maps.records.set_max_entries(TP_RECORDS_BYTES),
        maps.refusals.set_max_entries(TP_REFUSALS),
    ];
    sized
        .into_iter()
        .collect::<Result<(), _>>()
        .map_err(Error::Load)
}
