//! The pilot's programs and maps: loaded, attached to a cgroup, read and written.

mod assignment_buckets;
mod choice_dists;
mod clocks;
mod conn_starts;
mod costs;
mod counters;
mod ends;
mod flows;
mod hashed;
mod iterate;
mod legacy;
mod needs;
mod netns_ends;
mod records;
mod sampler;
mod steered;
mod tally;

use std::{
    fs::File,
    mem::size_of,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use clocks::{TICKS_OVER, read_clocks, ticks_per_s};
use iterate::iterate;
use libbpf_rs::{MapCore, MapFlags, ProgramInput, ProgramMut, skel::OpenSkel};
use needs::Needs;
use tcpilot_abi::{
    TP_WAYS, from_bytes, to_bytes, tp_bucket, tp_clocks, tp_config, tp_counters, tp_order, tp_path,
    tp_path_key, tp_policy_config, tp_rule, tp_slot, tp_tuned,
};

use crate::{
    Error,
    claim::Claim,
    host,
    object::{
        bytes_of, map_error, no_section, open_object, program_info, skeleton_module, write_plain,
    },
};

skeleton_module!("sockops.skel.rs");
pub use assignment_buckets::{ASSIGNMENT_BUCKETS, AssignmentBuckets};
pub use choice_dists::{ChoiceDists, Entries, NodeSecrets, Put};
pub use conn_starts::{ConnStarts, Live};
pub use costs::Costs;
pub use ends::{Ends, LearnerDescriptors, LearnerKeys};
pub use legacy::{Descriptors, Keys, Legacy};
pub use netns_ends::NetnsEnds;
pub use records::{Heartbeat, Records};
pub use sampler::{MOVES, MoveRequest, Sampler};
use skeleton::{OpenSockopsSkel, SockopsSkel, SockopsSkelBuilder};
use steered::is_steered;
pub use steered::{PROGRAM, sockops_programs};
pub use tally::Tally;

/// Buckets (of eight paths) per batch of a read, to bound the daemon's memory.
const BATCH: u32 = 32;

/// How often the sockops program ran and for how long; zeros unless kernel.bpf_stats_enabled is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Calls, one for each sockops event.
    pub events: u64,
    /// Time in the program, nanoseconds.
    pub nanoseconds: u64,
}

/// The loaded pilot. Dropping it detaches and unloads everything.
pub struct Pilot {
    skel: SockopsSkel<'static>,
    /// Each attaches a program as long as it is open.
    links: Vec<OwnedFd>,
    needs: Needs,
    cgroup: PathBuf,
    claim: Option<Claim>,
    keys: Keys,
    loaded_at: tp_clocks,
}

impl Pilot {
    /// Loads the programs with this configuration, and room for `paths_max` paths, or for the next power
    /// of two.
    ///
    /// # Errors
    /// [`Error::Load`] if the kernel refuses them.
    pub fn load(config: &tp_config, paths_max: u32) -> Result<Pilot, Error> {
        Pilot::load_with(config, Keys::new(config, paths_max), None)
    }

    /// The same with the memory of a running pilot, if there is one: its maps, read with its keys.
    fn load_with(
        config: &tp_config,
        mut keys: Keys,
        legacy: Option<&Legacy>,
    ) -> Result<Pilot, Error> {
        let inherited = legacy.map(|legacy| *legacy.learner());
        let learner = LearnerKeys::new(config).with_secrets_of(inherited);
        keys.learner = learner;
        let needs = Needs::new(config);
        keys.tuned |= needs.tunes;
        keys.tabled |= needs.tunes;
        let config = tp_config {
            choice_dist_buckets: learner.choice_dists,
            conn_start_buckets: learner.conn_starts,
            node_secrets: learner.secrets,
            follows_fins: needs.whole().into(),
            policy: std::array::from_fn(|policy| with_tuned(config, policy)),
            buckets: keys.table(),
            hold_out_seed: keys.hold_out_seed,
            hash_secrets: keys.hash_secrets,
            ..*config
        };
        let mut open = open_object::<SockopsSkelBuilder>()?;
        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(no_section)?;
        write_plain(&raw mut rodata.cfg, &config);
        size_maps(&mut open, &keys, legacy)?;
        ends::size_maps(&mut open, &learner, legacy)?;
        needs.choose(&mut open.progs);
        let mut skel = open.load().map_err(Error::of_load)?;
        if legacy.is_some() {
            legacy::show_counters(&mut skel)?;
        }
        let loaded_at = read_clocks(&skel.progs.read_clocks)?;
        let mut pilot = Pilot {
            skel,
            loaded_at,
            links: Vec::new(),
            needs,
            cgroup: PathBuf::new(),
            claim: None,
            keys,
        };
        pilot.set_ticks_per_s(keys.ticks_per_s);
        Ok(pilot)
    }

    /// The number of paths that the table has room for.
    pub fn capacity(&self) -> u32 {
        self.keys.capacity()
    }

    /// Makes the iterators list only the connections of the cgroup with this id; by default they list all.
    pub fn set_cgroup(&mut self, id: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.steered_cgroup = id;
        }
    }

    /// Attaches to a cgroup by a link of this process. It may be called again after the cgroup was
    /// removed and made again. With tunings it first counts the connections of a former pilot, since this
    /// one will see their end.
    ///
    /// # Errors
    /// [`Error::Cgroup`], [`Error::AlreadyAttached`], [`Error::Claims`], [`Error::Attach`], [`Error::Map`].
    pub fn attach(&mut self, cgroup: &Path) -> Result<(), Error> {
        let dir = open_cgroup(cgroup)?;
        let claim = claim(cgroup, &dir)?;
        if self.ticks_per_s() == 0 {
            self.find_ticks_per_s()?; // waits
        }
        if self.claim.is_none() && self.needs.tunes {
            // Before the program is attached, or new connections would be counted twice. But nothing
            // may wait between the two: a connection ending meanwhile would stay counted for ever.
            iterate(&self.skel.progs.adopt, "count the connections")?;
        }
        // The links to a removed cgroup stay while it has sockets: the programs must see their end.
        self.links.retain(has_cgroup);
        let link = attach_to(self.program(), cgroup, &dir)?;
        self.links.push(link);
        if self.needs.acks_first {
            let program = &self.skel.progs.ack_priority;
            self.links.push(attach_to(program, cgroup, &dir)?);
        }
        self.cgroup = cgroup.to_path_buf();
        self.claim = Some(claim);
        Ok(())
    }

    fn ticks_per_s(&self) -> u32 {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(0, |bss| bss.ticks_per_s)
    }

    /// Gives the programs the kernel's tick. No file gives it reliably, so it is measured over 100 ms.
    /// Most of them have passed since loading.
    fn find_ticks_per_s(&mut self) -> Result<(), Error> {
        let mut now = read_clocks(&self.skel.progs.read_clocks)?;
        let passed = Duration::from_nanos(now.now_ns.saturating_sub(self.loaded_at.now_ns));
        if passed < TICKS_OVER {
            std::thread::sleep(TICKS_OVER.saturating_sub(passed));
            now = read_clocks(&self.skel.progs.read_clocks)?;
        }
        self.set_ticks_per_s(ticks_per_s(&self.loaded_at, &now));
        Ok(())
    }

    fn set_ticks_per_s(&mut self, ticks_per_s: u32) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.ticks_per_s = ticks_per_s;
        }
    }

    /// Whether its cgroup still exists: its removal detaches. A new cgroup of
    /// the same name has another id.
    pub fn is_attached(&self) -> bool {
        let there = host::cgroup_id(&self.cgroup).ok();
        there.is_some() && there == self.claim.as_ref().map(Claim::id)
    }

    /// Replaces the rules in force, in their order.
    pub fn set_rules(&mut self, rules: &[tp_rule]) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            for (slot, rule) in bss.rules.iter_mut().zip(rules) {
                write_plain(std::ptr::from_mut(slot), rule);
            }
        }
    }

    /// The counts since the start.
    pub fn counters(&self) -> tp_counters {
        let counted = self.skel.maps.bss_counters_data.as_deref();
        counted
            .map(|counted| counters::sum(bytes_of(&counted.counters)))
            .unwrap_or_default()
    }

    /// When a packet was lost last, in nanoseconds of the kernel's clock; 0: none since the start.
    pub fn last_loss_ns(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(0, |bss| bss.last_loss_ns)
    }

    /// Calls `each` with every path of the table; returns their number.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn for_each_path(&self, mut each: impl FnMut(tp_path_key, tp_path)) -> Result<u32, Error> {
        self.for_each_slot(|_, key, path| each(key, path))
    }

    /// The same, with each path's number in the table.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn for_each_slot(
        &self,
        mut each: impl FnMut(u32, tp_path_key, tp_path),
    ) -> Result<u32, Error> {
        let batches = self
            .skel
            .maps
            .paths
            .lookup_batch(BATCH.min(self.keys.table()), MapFlags::ANY, MapFlags::ANY)
            .map_err(map_error("read the paths"))?;
        let mut count = 0;
        for (index, bytes) in batches {
            let Some(bucket) = from_bytes::<tp_bucket>(&bytes) else {
                continue;
            };
            let first = from_bytes::<u32>(&index).unwrap_or(0) * TP_WAYS;
            for (number, (tag, slot)) in (first..).zip(bucket.tag.iter().zip(&bucket.slot)) {
                if *tag != 0 {
                    count += 1;
                    each(number, slot.key, slot.path);
                }
            }
        }
        Ok(count)
    }

    /// The tunings' state of the path with this number; `None` if no policy has a tuning, or if the
    /// path has not used one yet.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn tuned(&self, number: u32, path: &tp_path) -> Result<Option<tp_tuned>, Error> {
        if !self.needs.tunes {
            return Ok(None);
        }
        let found = self
            .skel
            .maps
            .tuned
            .lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(map_error("read the tunings"))?;
        let tuned = bytes.as_deref().and_then(from_bytes::<tp_tuned>);
        Ok(tuned.filter(|tuned| tuned.born_ns == path.born_ns))
    }

    /// Gives the guard's decision to the pilot; returns whether the path was still there.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn put_order(&self, order: &tp_order) -> Result<bool, Error> {
        let mut bytes = to_bytes(order).to_vec();
        let input = ProgramInput {
            context_in: Some(&mut bytes),
            ..Default::default()
        };
        let output = self.skel.progs.put_order.test_run(input);
        Ok(output
            .map_err(map_error("write the guard's order"))?
            .return_value
            == 0)
    }

    /// Stores a path from the state file. One of our programs does it, by the table's own rules: the
    /// path may take the place of the one unused for longest.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn put_path(&self, key: &tp_path_key, path: &tp_path) -> Result<(), Error> {
        let mut slot = to_bytes(&tp_slot {
            key: *key,
            path: *path,
        })
        .to_vec();
        let input = ProgramInput {
            context_in: Some(&mut slot),
            ..Default::default()
        };
        let action = "store a path";
        let output = self.skel.progs.put_path.test_run(input);
        match output.map_err(map_error(action))?.return_value {
            0 => Ok(()),
            _ => Err(Error::System {
                action,
                source: std::io::ErrorKind::WouldBlock.into(),
            }),
        }
    }

    /// Forgets every path.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn clear_paths(&mut self) -> Result<(), Error> {
        let empty = vec![0; size_of::<tp_bucket>()];
        for index in 0..self.keys.table() {
            self.skel
                .maps
                .paths
                .update(&index.to_ne_bytes(), &empty, MapFlags::ANY)
                .map_err(map_error("clear the paths"))?;
        }
        if let Some(counted) = self.skel.maps.bss_counters_data.as_deref_mut() {
            for set in &mut counted.counters {
                write_plain(&raw mut set.paths, &0u64);
            }
        }
        Ok(())
    }

    /// The sockops program.
    fn program(&self) -> &ProgramMut<'static> {
        let programs = &self.skel.progs;
        if self.needs.whole() {
            &programs.tcpilot_whole
        } else {
            &programs.tcpilot
        }
    }

    /// The cost of the sockops program so far.
    pub fn run_stats(&self) -> RunStats {
        let info = program_info(self.program().as_fd().as_raw_fd()).unwrap_or_default();
        RunStats {
            events: info.run_cnt,
            nanoseconds: info.run_time_ns,
        }
    }
}

fn open_cgroup(cgroup: &Path) -> Result<File, Error> {
    host::cgroup_id(cgroup)?;
    File::open(cgroup).map_err(|source| Error::Cgroup {
        path: cgroup.to_path_buf(),
        source,
    })
}

fn claim(cgroup: &Path, dir: &File) -> Result<Claim, Error> {
    let claim = Claim::take(cgroup, dir)?;
    if is_steered(cgroup, dir) {
        return Err(Error::AlreadyAttached(cgroup.to_path_buf()));
    }
    Ok(claim)
}

/// Whether a pilot could be attached to this cgroup now, for callers that check before they make
/// anything else. [`Pilot::attach`] checks again.
///
/// # Errors
/// As [`Pilot::attach`].
pub fn check_free(cgroup: &Path) -> Result<(), Error> {
    claim(cgroup, &open_cgroup(cgroup)?).map(drop)
}

/// Gives each map enough room, or replaces it by the map of a running pilot.
fn size_maps(
    open: &mut OpenSockopsSkel<'_>,
    keys: &Keys,
    legacy: Option<&Legacy>,
) -> Result<(), Error> {
    open.maps
        .paths
        .set_max_entries(keys.table())
        .map_err(Error::Load)?;
    if keys.tuned {
        open.maps
            .tuned
            .set_max_entries(keys.buckets * TP_WAYS)
            .map_err(Error::Load)?;
    }
    match legacy {
        Some(legacy) => legacy.put_into(&mut open.maps, keys),
        None => Ok(()),
    }
}

/// A policy, marked if it has a tuning on.
fn with_tuned(config: &tp_config, policy: usize) -> tp_policy_config {
    let networks = &config.tuning[policy];
    tp_policy_config {
        tuned: networks.iter().any(|tuning| tuning.features != 0).into(),
        ..config.policy[policy]
    }
}

/// Attaches a program; returns the descriptor of the kernel's link.
fn attach_to(program: &ProgramMut<'_>, cgroup: &Path, dir: &File) -> Result<OwnedFd, Error> {
    let fail = |source| Error::Attach {
        path: cgroup.to_path_buf(),
        source,
    };
    let link = program.attach_cgroup(dir.as_raw_fd()).map_err(fail)?;
    // libbpf closes its own descriptor when the value is dropped.
    let fd = link.as_fd().try_clone_to_owned();
    fd.map_err(|error| fail(error.into()))
}

/// Whether a link still has its cgroup: a removed cgroup leaves it with its last socket.
fn has_cgroup(link: &OwnedFd) -> bool {
    legacy::cgroup_of(link).is_none_or(|cgroup| cgroup.id != 0)
}
