//! The pilot's programs and maps: loaded, attached to a cgroup, read and written.

use std::{
    fs::{DirEntry, File},
    hash::{BuildHasher, RandomState},
    io::Read,
    mem::{MaybeUninit, size_of},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use libbpf_rs::{
    Link, MapCore, MapFlags, OpenObject, ProgramInput, ProgramMut,
    libbpf_sys::{BPF_F_QUERY_EFFECTIVE, bpf_iter_create},
    query::LinkTypeInfo,
    skel::{OpenSkel, SkelBuilder},
};
use tcpilot_abi::{
    TP_TUNE_ACK_PRIORITY, TP_WAYS, from_bytes, to_bytes, tp_bucket, tp_clocks, tp_config,
    tp_counters, tp_flow, tp_order, tp_path, tp_path_key, tp_rule, tp_slot, tp_tuned,
};

use crate::{
    Error,
    claim::Claim,
    host,
    object::{bytes_of, map_error, no_section, program_info, skeleton_module, write_plain},
    socket::in_netns,
};

skeleton_module!("sockops.skel.rs");
use skeleton::{SockopsSkel, SockopsSkelBuilder};

/// The name of the sockops program, by which another instance is recognised.
const PROGRAM: &str = "tcpilot";

/// Long enough to tell 250 ticks a second from 300.
const TICKS_OVER: Duration = Duration::from_millis(100);
/// Buckets of eight paths are read in batches of so many, to bound the daemon's memory.
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
    links: Vec<Link>,
    acks_first: bool,
    /// Some policy has a tuning.
    tunes: bool,
    cgroup: PathBuf,
    claim: Option<Claim>,
    buckets: u32,
    loaded_at: tp_clocks,
}

impl Pilot {
    /// Loads the programs with this configuration, and room for `paths_max` paths; where that is no
    /// power of two, for the next one.
    ///
    /// # Errors
    /// [`Error::Load`] when the kernel refuses them.
    pub fn load(config: &tp_config, paths_max: u32) -> Result<Pilot, Error> {
        let buckets = paths_max.div_ceil(TP_WAYS).next_power_of_two();
        // std keys its hasher, SipHash, from the system's random source.
        let random = RandomState::new();
        let config = tp_config {
            buckets,
            hold_out_seed: random.hash_one("hold-out"),
            hash_secrets: std::array::from_fn(|number| random.hash_one(number)),
            ..*config
        };
        // The skeleton borrows its object for as long as it lives, and the pilot lives as long as the
        // process: one small leaked allocation is simpler than a self-referential structure.
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = SockopsSkelBuilder::default()
            .open(object)
            .map_err(Error::Load)?;
        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(no_section)?;
        write_plain(&raw mut rodata.cfg, &config);
        open.maps
            .paths
            .set_max_entries(buckets)
            .map_err(Error::Load)?;
        if config.tunes != 0 {
            open.maps
                .tuned
                .set_max_entries(buckets * TP_WAYS)
                .map_err(Error::Load)?;
        }
        let acks_first =
            u32::from(config.tunes) >> TP_TUNE_ACK_PRIORITY & 1 == 1 && config.dry_run == 0;
        open.progs.ack_priority.set_autoload(acks_first);
        let skel = open.load().map_err(Error::Load)?;
        let loaded_at = read_clocks(&skel.progs.read_clocks)?;
        Ok(Pilot {
            skel,
            loaded_at,
            links: Vec::new(),
            acks_first,
            tunes: config.tunes != 0,
            cgroup: PathBuf::new(),
            claim: None,
            buckets,
        })
    }

    /// How many paths there is room for.
    pub fn capacity(&self) -> u32 {
        self.buckets * TP_WAYS
    }

    /// Tells the iterators which cgroup's connections to list, by its id; unless told, those of all.
    pub fn set_cgroup(&mut self, id: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.steered_cgroup = id;
        }
    }

    /// Attaches to a cgroup by a link that this process owns; also again, to a cgroup that was made anew.
    ///
    /// # Errors
    /// [`Error::Cgroup`], [`Error::AlreadyAttached`], [`Error::Claims`], [`Error::Attach`].
    pub fn attach(&mut self, cgroup: &Path) -> Result<(), Error> {
        let dir = open_cgroup(cgroup)?;
        let claim = claim(cgroup, &dir)?;
        // Found by adopt() already, which is called first: nothing may wait between the two.
        if self.ticks_per_s() == 0 {
            self.find_ticks_per_s()?;
        }
        // The links to a removed cgroup stay while it has sockets, so that their end is seen.
        self.links.retain(has_cgroup);
        let mut programs = vec![&self.skel.progs.tcpilot];
        if self.acks_first {
            programs.push(&self.skel.progs.ack_priority);
        }
        for program in programs {
            let link = program.attach_cgroup(dir.as_raw_fd());
            self.links.push(link.map_err(|source| Error::Attach {
                path: cgroup.to_path_buf(),
                source,
            })?);
        }
        self.cgroup = cgroup.to_path_buf();
        self.claim = Some(claim);
        Ok(())
    }

    fn ticks_per_s(&self) -> u32 {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map_or(0, |bss| bss.ticks_per_s)
    }

    /// Tells the programs the kernel's tick, which no file says for sure: measured over 100 ms, of which
    /// most have passed since loading.
    fn find_ticks_per_s(&mut self) -> Result<(), Error> {
        let mut now = read_clocks(&self.skel.progs.read_clocks)?;
        let passed = Duration::from_nanos(now.now_ns.saturating_sub(self.loaded_at.now_ns));
        if passed < TICKS_OVER {
            std::thread::sleep(TICKS_OVER.saturating_sub(passed));
            now = read_clocks(&self.skel.progs.read_clocks)?;
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.ticks_per_s = ticks_per_s(&self.loaded_at, &now);
        }
        Ok(())
    }

    /// Whether the cgroup that it was attached to is still there: its removal detaches. One of the same
    /// name that was made anew has another id.
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

    /// What was counted since the start.
    pub fn counters(&self) -> tp_counters {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.and_then(|bss| from_bytes(bytes_of(&bss.counters)))
            .unwrap_or_default()
    }

    /// Calls `each` with every path of the table; returns how many there were.
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
            .lookup_batch(BATCH.min(self.buckets), MapFlags::ANY, MapFlags::ANY)
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

    /// What the tunings know of the path with this number; `None` where no policy has any, or where
    /// the path has not used them yet.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn tuned(&self, number: u32, path: &tp_path) -> Result<Option<tp_tuned>, Error> {
        if !self.tunes {
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

    /// Tells the pilot what the guard decided; whether the path was still there.
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

    /// Stores a path, as the state file remembers it. A program of ours does it, by the table's own
    /// rules: it may take the place of the path unused for longest.
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
        for index in 0..self.buckets {
            self.skel
                .maps
                .paths
                .update(&index.to_ne_bytes(), &empty, MapFlags::ANY)
                .map_err(map_error("clear the paths"))?;
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            write_plain(&raw mut bss.counters.paths, &0u64);
        }
        Ok(())
    }

    /// The live connections of the steered cgroup, of every network namespace that has a name or a
    /// process, as far as [`host::may_enter_netns`].
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn flows(&self) -> Result<Vec<tp_flow>, Error> {
        let bytes = iterate(&self.skel.progs.flows, "list the connections")?;
        Ok(bytes
            .chunks_exact(size_of::<tp_flow>())
            .filter_map(from_bytes)
            .collect())
    }

    /// Counts the connections that a former pilot took up, and whose end this one will see. To be
    /// called before [`Pilot::attach`]: afterwards it would count new ones twice.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn adopt(&mut self) -> Result<(), Error> {
        // This may wait for 100 ms. A connection that ended in between would stay counted for ever.
        self.find_ticks_per_s()?;
        iterate(&self.skel.progs.adopt, "count the connections").map(|_| ())
    }

    /// What the sockops program has cost so far.
    pub fn run_stats(&self) -> RunStats {
        let info = program_info(self.skel.progs.tcpilot.as_fd().as_raw_fd()).unwrap_or_default();
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

/// Whether a pilot could be attached to this cgroup now, for those who want to know before they make
/// anything else. [`Pilot::attach`] looks again.
///
/// # Errors
/// As [`Pilot::attach`].
pub fn check_free(cgroup: &Path) -> Result<(), Error> {
    claim(cgroup, &open_cgroup(cgroup)?).map(drop)
}

/// Whether a link still holds its cgroup: removed cgroups leave it with their last socket.
fn has_cgroup(link: &Link) -> bool {
    let info = link.info().map(|link| link.info);
    !matches!(info, Ok(LinkTypeInfo::Cgroup(cgroup)) if cgroup.cgroup_id == 0)
}

fn read_clocks(program: &ProgramMut<'_>) -> Result<tp_clocks, Error> {
    let action = "read the kernel's clocks";
    let mut clocks = to_bytes(&tp_clocks::default()).to_vec();
    let input = ProgramInput {
        context_in: Some(&mut clocks),
        ..Default::default()
    };
    program.test_run(input).map_err(map_error(action))?;
    from_bytes(&clocks).ok_or(Error::System {
        action,
        source: std::io::ErrorKind::InvalidData.into(),
    })
}

/// The kernel is built with one of a few ticks, time(7): the nearest to what was seen.
fn ticks_per_s(from: &tp_clocks, to: &tp_clocks) -> u32 {
    let ns = to.now_ns.saturating_sub(from.now_ns).max(1);
    let seen = to
        .ticks
        .saturating_sub(from.ticks)
        .saturating_mul(1_000_000_000)
        / ns;
    let seen = u32::try_from(seen).unwrap_or(u32::MAX);
    [100, 250, 300, 1000]
        .into_iter()
        .min_by_key(|tick: &u32| tick.abs_diff(seen))
        .unwrap_or(0)
}

/// Runs an iterator over connections in every network namespace, and returns what it wrote.
fn iterate(program: &ProgramMut<'_>, action: &'static str) -> Result<Vec<u8>, Error> {
    let link = program.attach().map_err(map_error(action))?;
    let link_fd = link.as_fd().as_raw_fd();
    // This process is in its own already: to enter that again it would need CAP_SYS_ADMIN, too.
    let mut bytes = read_iterator(link_fd)?;
    let own = host::own_netns_inum();
    let is_own = |netns: &File| {
        let inum = netns.metadata().map(|meta| u32::try_from(meta.ino()).ok());
        inum.is_ok_and(|inum| inum == own)
    };
    for netns in host::all_netns().iter().filter(|netns| !is_own(netns)) {
        // One that is gone by now has no connections either.
        if let Ok(part) = in_netns(netns, || read_iterator(link_fd)) {
            bytes.append(&mut part?);
        }
    }
    Ok(bytes)
}

/// Runs an iterator for the namespace of the calling thread, and returns what it wrote.
fn read_iterator(link_fd: i32) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::System {
        action: "list the connections",
        source,
    };
    // SAFETY: a plain system call; the descriptor is checked, and owned from here on.
    let fd = unsafe { bpf_iter_create(link_fd) };
    if fd < 0 {
        return Err(fail(std::io::Error::last_os_error()));
    }
    // SAFETY: fd is a descriptor that was just opened and that nobody else has.
    let mut file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}

/// Whether the kernel runs a program of ours for sockets of this cgroup, its ancestors' included, or of
/// one below it. This finds those that a claim does not show: of a container with a /run of its own, or
/// of a version without claims. The names are for CAP_SYS_ADMIN; without it nothing is found.
fn is_steered(cgroup: &Path, dir: &File) -> bool {
    let has_ours = |dir: &File, flags| programs(dir, flags).iter().any(|name| name == PROGRAM);
    let below = |entry: DirEntry| File::open(entry.path()).is_ok_and(|dir| has_ours(&dir, 0));
    has_ours(dir, BPF_F_QUERY_EFFECTIVE) || host::subtree(cgroup).any(below)
}

/// Names of a cgroup's sockops programs: its own, or with BPF_F_QUERY_EFFECTIVE its ancestors' too.
fn programs(cgroup: &File, flags: u32) -> Vec<String> {
    use libbpf_rs::libbpf_sys::{BPF_CGROUP_SOCK_OPS, bpf_prog_get_fd_by_id, bpf_prog_query};
    let mut ids = [0u32; 64];
    let mut count = ids.len() as u32;
    // SAFETY: ids has room for count entries; the other outputs may be null.
    let result = unsafe {
        bpf_prog_query(
            cgroup.as_raw_fd(),
            BPF_CGROUP_SOCK_OPS,
            flags,
            std::ptr::null_mut(),
            ids.as_mut_ptr(),
            &raw mut count,
        )
    };
    if result != 0 {
        return Vec::new();
    }
    let name_of = |&id: &u32| {
        // SAFETY: a plain system call; the descriptor is owned from here on.
        let fd = unsafe { bpf_prog_get_fd_by_id(id) };
        if fd < 0 {
            return None;
        }
        // SAFETY: fd is a descriptor that was just opened and that nobody else has.
        let fd = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        let name = program_info(fd.as_raw_fd())?.name;
        let text: Vec<u8> = name
            .iter()
            .take_while(|c| **c != 0)
            .map(|c| *c as u8)
            .collect();
        String::from_utf8(text).ok()
    };
    ids.iter()
        .take(count as usize)
        .filter_map(name_of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_is_the_nearest_that_kernels_are_built_with() {
        let clocks = |ticks, now_ns| tp_clocks { ticks, now_ns };
        let start = clocks(1_000_000, 5_000_000_000);
        for (ticks, ms, expected) in [
            (10, 100, 100),
            (24, 100, 250),
            (26, 100, 250),
            (30, 101, 300),
            (99, 100, 1000),
            (750, 3001, 250),
        ] {
            let end = clocks(start.ticks + ticks, start.now_ns + ms * 1_000_000);
            assert_eq!(ticks_per_s(&start, &end), expected, "{ticks} in {ms} ms");
        }
    }
}
