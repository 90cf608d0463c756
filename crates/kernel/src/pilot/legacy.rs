//! The legacy of a pilot for its successor: its maps, its links, and the keys to read them.
//!
//! The kernel lets a link change its program in one step, BPF_LINK_UPDATE: each event runs the old program
//! or the new one. Both use the same maps, so the new one knows every path and every open connection. The
//! links pass from one process image to the next as open descriptors, and nobody else has them: if a
//! program dies while it has them, the kernel detaches.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use libbpf_rs::{
    ProgramMut,
    libbpf_sys::{BPF_CGROUP_INET_EGRESS, bpf_link_get_info_by_fd, bpf_link_info, bpf_link_update},
};
use serde::{Deserialize, Serialize};
use tcpilot_abi::{TP_HASH_SECRETS, TP_WAYS, tp_config};

use super::{
    LearnerDescriptors, LearnerKeys, Pilot, SockopsSkel, attach_to, open_cgroup,
    skeleton::OpenSockopsMaps,
};
use crate::{Error, claim::Claim, process::inherited};

/// The keys to the maps. They are drawn or measured once, and kept as long as the maps live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Buckets of the table of paths.
    pub buckets: u32,
    /// Seed that decides from which connections a tuning is withheld.
    pub hold_out_seed: u64,
    /// Secrets of the table's hash.
    pub hash_secrets: [u64; TP_HASH_SECRETS as usize],
    /// The kernel's ticks; 0: not known yet.
    pub ticks_per_s: u32,
    /// Whether the map of tunings has room for every path; otherwise only for one.
    pub tuned: bool,
    /// Whether the table of paths has all its buckets; otherwise it has one, since nothing puts a path
    /// into it.
    pub tabled: bool,
    /// The keys to the learner's maps.
    pub learner: LearnerKeys,
}

impl Keys {
    /// New keys, for at least so many paths.
    pub(super) fn new(config: &tp_config, paths_max: u32) -> Keys {
        // std keys its hasher, SipHash, from the system's random source.
        let random = RandomState::new();
        Keys {
            buckets: buckets_for(paths_max),
            hold_out_seed: random.hash_one("hold-out"),
            hash_secrets: std::array::from_fn(|number| random.hash_one(number)),
            ticks_per_s: 0,
            tuned: false,
            tabled: false,
            learner: LearnerKeys::new(config),
        }
    }

    /// Whether a table of this size would be made for so many paths.
    pub fn has_room_for(&self, paths_max: u32) -> bool {
        self.buckets == buckets_for(paths_max)
    }

    /// The number of buckets of the table of paths.
    pub(super) fn table(&self) -> u32 {
        if self.tabled { self.buckets } else { 1 }
    }

    /// The number of paths that the table has room for.
    pub fn capacity(&self) -> u32 {
        self.buckets * TP_WAYS
    }
}

fn buckets_for(paths_max: u32) -> u32 {
    paths_max.div_ceil(TP_WAYS).next_power_of_two()
}

/// A pilot's descriptors by their numbers, for the program inheriting them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptors {
    /// Paths, connections, tunings, policers, counts.
    pub maps: [i32; 5],
    /// The learner's maps.
    pub learner: LearnerDescriptors,
    /// Empty in a trial.
    pub links: Vec<i32>,
    /// The claimed cgroup's id, and the lock.
    pub claim: Option<(u64, i32)>,
}

impl Descriptors {
    /// All numbers.
    pub fn all(&self) -> impl Iterator<Item = i32> {
        let claim = self.claim.iter().map(|(_, lock)| lock);
        let learner = &self.learner.maps;
        let maps = self.maps.iter().chain(learner);
        maps.chain(&self.links).chain(claim).copied()
    }
}

/// The legacy of a pilot.
pub struct Legacy {
    keys: Keys,
    maps: [OwnedFd; 5],
    learner: [OwnedFd; 7],
    links: Vec<OwnedFd>,
    claim: Option<(u64, OwnedFd)>,
}

impl Legacy {
    /// Takes the inherited descriptors. Call it only once.
    ///
    /// # Errors
    /// [`Error::System`] if one is not open.
    pub fn take(descriptors: &Descriptors, keys: Keys) -> Result<Legacy, Error> {
        let take = |fd: &i32| inherited(*fd);
        let [paths, conns, tuned, police, counters] = &descriptors.maps;
        let [
            dists,
            costs,
            assignments,
            conn_starts,
            records,
            rescues,
            refusals,
        ] = &descriptors.learner.maps;
        let links = descriptors.links.iter().map(take);
        let claim = descriptors.claim.as_ref();
        Ok(Legacy {
            keys,
            maps: [
                take(paths)?,
                take(conns)?,
                take(tuned)?,
                take(police)?,
                take(counters)?,
            ],
            learner: [
                take(dists)?,
                take(costs)?,
                take(assignments)?,
                take(conn_starts)?,
                take(records)?,
                take(rescues)?,
                take(refusals)?,
            ],
            links: links.collect::<Result<_, _>>()?,
            claim: claim.map(|(id, lock)| Ok((*id, take(lock)?))).transpose()?,
        })
    }

    /// The keys to read its maps with.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The keys to the learner's maps.
    pub(super) fn learner(&self) -> &LearnerKeys {
        &self.keys.learner
    }

    /// Puts the learner's maps in the place of new ones; choice distributions and costs only if the kind of the
    /// learner is the same.
    pub(super) fn put_learner_into(
        &self,
        maps: &mut OpenSockopsMaps<'_>,
        keys: &LearnerKeys,
    ) -> Result<(), Error> {
        let [
            dists,
            costs,
            assignments,
            conn_starts,
            records,
            rescues,
            refusals,
        ] = &self.learner;
        let mut reuse = vec![
            maps.draws.reuse_fd(assignments.as_fd()),
            maps.openings.reuse_fd(conn_starts.as_fd()),
            maps.records.reuse_fd(records.as_fd()),
            maps.rescues.reuse_fd(rescues.as_fd()),
            maps.refusals.reuse_fd(refusals.as_fd()),
        ];
        if keys.kind == self.learner().kind {
            reuse.push(maps.rows.reuse_fd(dists.as_fd()));
            reuse.push(maps.costs.reuse_fd(costs.as_fd()));
        }
        reuse
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(Error::Load)
    }

    /// Puts the maps in the place of new ones, if they have the room required by these keys.
    pub(super) fn put_into(
        &self,
        maps: &mut OpenSockopsMaps<'_>,
        keys: &Keys,
    ) -> Result<(), Error> {
        let [paths, conns, old_tuned, police, counters] = &self.maps;
        let mut reuse = vec![
            maps.conns.reuse_fd(conns.as_fd()),
            maps.police.reuse_fd(police.as_fd()),
            maps.bss_counters.reuse_fd(counters.as_fd()),
        ];
        if keys.tabled == self.keys.tabled {
            reuse.push(maps.paths.reuse_fd(paths.as_fd()));
        }
        if keys.tuned == self.keys.tuned {
            reuse.push(maps.tuned.reuse_fd(old_tuned.as_fd()));
        }
        reuse
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(Error::Load)
    }
}

/// Maps the kernel's counts to the place where libbpf keeps a map's first contents. libbpf does so itself
/// only for its own maps, and not for inherited ones.
pub(super) fn show_counters(skel: &mut SockopsSkel<'_>) -> Result<(), Error> {
    let fail = |source| Error::System {
        action: "map the counts",
        source,
    };
    let fd = skel.maps.bss_counters.as_fd().as_raw_fd();
    let Some(counted) = skel.maps.bss_counters_data.as_deref_mut() else {
        return Err(super::no_section());
    };
    let (at, len) = (std::ptr::from_mut(counted), size_of_val(counted));
    // SAFETY: libbpf mapped whole pages at this address, for this map and nothing else, and unmaps them
    // with it. MAP_FIXED puts others in their place, of the same size.
    let mapped = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(
            at.cast(),
            len,
            access,
            libc::MAP_SHARED | libc::MAP_FIXED,
            fd,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(fail(io::Error::last_os_error()));
    }
    Ok(())
}

/// The cgroup of a link: its id (0 once it is gone), and whether the link's program sees outgoing packets.
pub(super) struct LinkedCgroup {
    pub id: u64,
    is_egress: bool,
}

/// The object a link is attached to; `None` if the kernel does not say.
pub(super) fn cgroup_of(link: &OwnedFd) -> Option<LinkedCgroup> {
    let mut info = bpf_link_info::default();
    let mut len = size_of::<bpf_link_info>() as u32;
    // SAFETY: info is writable for len bytes.
    let result = unsafe { bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut len) };
    if result != 0 {
        return None;
    }
    // SAFETY: our links are all of cgroups, and every byte pattern is an integer.
    let cgroup = unsafe { info.__bindgen_anon_1.cgroup };
    Some(LinkedCgroup {
        id: cgroup.cgroup_id,
        is_egress: cgroup.attach_type == BPF_CGROUP_INET_EGRESS,
    })
}

/// Replaces the link's program; says whether the link still has a cgroup.
fn update(link: BorrowedFd<'_>, program: &ProgramMut<'_>) -> io::Result<bool> {
    let program = program.as_fd().as_raw_fd();
    // SAFETY: a plain system call with two open descriptors and no options.
    match unsafe { bpf_link_update(link.as_raw_fd(), program, std::ptr::null()) } {
        0 => Ok(true),
        error if -error == libc::ENOLINK => Ok(false),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

impl Pilot {
    /// Loads the programs with the memory of a running pilot. That one goes on meanwhile.
    ///
    /// # Errors
    /// As [`Pilot::load`].
    pub fn inherit(config: &tp_config, legacy: &Legacy) -> Result<Pilot, Error> {
        Pilot::load_with(config, legacy.keys, Some(legacy))
    }

    /// Takes the place of the pilot that left this: its programs do not run any more from here on.
    ///
    /// # Errors
    /// [`Error::Attach`]; then the attached programs are detached.
    pub fn replace(&mut self, legacy: Legacy, cgroup: &Path) -> Result<(), Error> {
        let fail = |source: io::Error| Error::Attach {
            path: cgroup.to_path_buf(),
            source: source.into(),
        };
        let mut has_egress = false;
        for link in legacy.links {
            let is_egress = cgroup_of(&link).is_some_and(|cgroup| cgroup.is_egress);
            let program = match (is_egress, self.needs.acks_first) {
                (false, _) => self.program(),
                (true, true) => &self.skel.progs.ack_priority,
                (true, false) => continue, // no longer configured
            };
            if update(link.as_fd(), program).map_err(fail)? {
                has_egress |= is_egress;
                self.links.push(link);
            }
        }
        if self.needs.acks_first && !has_egress {
            let dir = open_cgroup(cgroup)?;
            let program = &self.skel.progs.ack_priority;
            self.links.push(attach_to(program, cgroup, &dir)?);
        }
        self.cgroup = cgroup.to_path_buf();
        self.claim = legacy.claim.map(|(id, lock)| Claim::kept(id, lock));
        Ok(())
    }

    /// The legacy for another program: the descriptors, and the keys to read the maps.
    pub fn legacy(&self) -> (Descriptors, Keys) {
        let maps = &self.skel.maps;
        let claim = self.claim.as_ref();
        let descriptors = Descriptors {
            maps: [
                maps.paths.as_fd(),
                maps.conns.as_fd(),
                maps.tuned.as_fd(),
                maps.police.as_fd(),
                maps.bss_counters.as_fd(),
            ]
            .map(|fd| fd.as_raw_fd()),
            learner: LearnerDescriptors {
                maps: [
                    maps.rows.as_fd(),
                    maps.costs.as_fd(),
                    maps.draws.as_fd(),
                    maps.openings.as_fd(),
                    maps.records.as_fd(),
                    maps.rescues.as_fd(),
                    maps.refusals.as_fd(),
                ]
                .map(|fd| fd.as_raw_fd()),
            },
            links: self.links.iter().map(AsRawFd::as_raw_fd).collect(),
            claim: claim.map(|claim| (claim.id(), claim.lock().as_raw_fd())),
        };
        let keys = Keys {
            ticks_per_s: self.ticks_per_s(),
            ..self.keys
        };
        (descriptors, keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(paths_max: u32) -> Keys {
        Keys::new(&tp_config::default(), paths_max)
    }

    #[test]
    fn bucket_count_is_next_power_of_two() {
        let keys = new(64);
        assert_eq!((keys.buckets, keys.capacity()), (8, 64));
        assert!(keys.has_room_for(64) && keys.has_room_for(57));
        assert!(!keys.has_room_for(56 / 2) && !keys.has_room_for(65));
        assert_ne!(keys.hash_secrets, new(64).hash_secrets);
    }
}
