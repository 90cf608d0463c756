//! A host with a daemon: does the steps of a schedule.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use tcpilot_config::Config;
use tcpilot_learner::{Level, learner::key_bytes};
use tcpilot_random::Random;

use super::{
    checks::{Outcome, Snapshot, check},
    host::{Host, Kernel},
    steps::{Act, Planted, Step},
};
use crate::{
    clocks::{self, simulated},
    daemon::{
        learning::{
            Counts, Learning, PolicySettings,
            ends::LearnerEnds,
            learners::tests::{record, settings},
            translate::lineage,
        },
        saving::{Saver, Saves},
        state_file::StateFile,
    },
    state::simulated_disk::{self, Crash, Disk},
};

/// Records of a schedule come from so many addresses.
const ADDRESSES: usize = 24;
/// A wall clock that is right.
const RIGHT_S: i64 = 1_800_000_000;
const SECOND_NS: u64 = 1_000_000_000;

pub(super) struct World {
    pub(super) kernel: Kernel,
    pub(super) host: Option<Host>,
    pub(super) file: PathBuf,
    pub(super) number: Rc<AtomicU64>,
    /// Records of each path so far.
    pub(super) sent: BTreeMap<Vec<u8>, u32>,
    /// Paths of namespaces of this boot.
    pub(super) of_boot: HashSet<Vec<u8>>,
    /// What was saved for certain.
    pub(super) acknowledged: Snapshot,
    /// What the save under way has at least.
    pub(super) begun: Snapshot,
    /// The wall clock was wrong for so long that ages count by it.
    pub(super) is_aged: bool,
    pub(super) crash: Crash,
    /// Clock of the last daemon, and the time then.
    pub(super) clock: Option<(f64, u64)>,
    pub(super) faults: u64,
    /// Whether connections are held out for the report.
    pub(super) compares: bool,
    /// The learner's clock at the begin of each save.
    pub(super) begins: BTreeMap<u64, f64>,
    pub(super) planted: Option<Planted>,
}
impl World {
    pub(super) fn new(file: PathBuf, planted: Option<Planted>) -> World {
        let _ = fs::remove_file(&file);
        let mut disk = Disk::default();
        disk.ignores_syncs = planted == Some(Planted::NoSync);
        disk.ignores_folder_syncs = planted == Some(Planted::NoFolderSync);
        simulated_disk::set(Some(disk));
        simulated::set(Some(simulated::Time {
            monotonic_ns: 1000 * SECOND_NS,
            wall_s: RIGHT_S,
            boot: 0,
        }));
        World {
            kernel: Kernel::default(),
            host: None,
            file,
            number: Rc::default(),
            sent: BTreeMap::new(),
            of_boot: HashSet::new(),
            acknowledged: Snapshot::default(),
            begun: Snapshot::default(),
            is_aged: false,
            crash: Crash::Kill,
            clock: None,
            faults: 0,
            compares: false,
            begins: BTreeMap::new(),
            planted,
        }
    }

    pub(super) fn policies() -> Vec<PolicySettings> {
        vec![settings(100)]
    }

    pub(super) fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// Starts a daemon; `counts` are those of the program that it takes over from.
    pub(super) fn start(&mut self, inherited: Option<(Option<Counts>, u64)>) -> Outcome {
        let identity = |file: &PathBuf| fs::metadata(file).ok().map(|meta| meta.ino());
        let before = identity(&self.file);
        let has_errors = simulated_disk::with(|disk| disk.errors.is_some());
        let opened = StateFile::open(&self.file, clocks::now());
        let mut saves = match opened {
            Ok(state_file) => Saves::new(state_file),
            Err(_) if simulated_disk::with(|disk| disk.is_down) => return Ok(()),
            Err(_) if has_errors => {
                // It ends with the disk's error, and is started again.
                simulated_disk::with(|disk| disk.is_down = true);
                return Ok(());
            }
            Err(error) => return Err(format!("it does not start: {error}")),
        };
        check(before.is_none() || identity(&self.file) == before, || {
            "the state was set aside".to_owned()
        })?;
        if self.planted == Some(Planted::WallClock) {
            let unix_s = clocks::now().unix_s;
            saves.state_file.clock().catch_up(unix_s as f64);
        }
        let secrets = saves.state_file.secrets();
        let restored = saves.read_learners(&World::policies(), secrets);
        if simulated_disk::with(|disk| disk.is_down) {
            return Ok(());
        }
        let restored = restored.map_err(|error| error.to_string())?;
        let ends = LearnerEnds {
            choice_dists: Box::new(self.kernel.dists.clone()),
            assignment_buckets: Box::new(self.kernel.clone()),
            records: Box::new(self.kernel.clone()),
            heartbeat: Box::new(self.kernel.clone()),
            sampler: None,
            conn_starts: Box::new(self.kernel.clone()),
        };
        // The report's groups of addresses take most of the time of a start: few schedules have them.
        let text = format!("dry_run = {}", !self.compares);
        let keys = Config::from_toml(&text, "").map_err(|error| error.to_string())?;
        let mut learning = Learning::open(ends, restored, &keys);
        match inherited {
            Some((counts, saved_ns)) => {
                saves.saved_ns = saved_ns;
                counts.into_iter().for_each(|counts| learning.go_on(counts));
            }
            None => {
                saves.saved_ns = clocks::monotonic_ns() + 1;
                learning.begin_choosing();
            }
        }
        learning.begin_stepped(250);
        self.host = Some(Host {
            saves,
            learning: Rc::new(learning),
            number: Rc::clone(&self.number),
        });
        Ok(())
    }

    /// The host has stopped: starts it again, and looks at what is left.
    pub(super) fn restart(&mut self, crash: Crash, away_s: u64) -> Outcome {
        self.faults += 1;
        if let Some(host) = &self.host {
            let clock = host.saves.state_file.clock().now_s();
            self.clock = Some((clock, clocks::monotonic_ns()));
        }
        let whole = simulated_disk::with(|disk| {
            (disk.is_down, disk.at_sync) = (true, None);
            disk.whole.len()
        });
        self.host = None;
        self.kernel = Kernel::default();
        let mut time = simulated::time().unwrap_or_else(|| unreachable!());
        time.monotonic_ns += away_s * SECOND_NS;
        if crash == Crash::PowerCut {
            time.boot += 1;
            self.of_boot.clear();
        }
        simulated::set(Some(time));
        loop {
            simulated_disk::with(|disk| disk.restart(crash));
            self.start(None)?;
            match simulated_disk::with(|disk| disk.is_down) {
                false => break,
                true => self.host = None, // it crashed again, while it started
            }
        }
        self.look_after_restart(away_s, whole)
    }

    pub(super) fn send(&mut self, random: &mut Random) {
        let time = simulated::time().unwrap_or_else(|| unreachable!());
        let number = random.below(ADDRESSES);
        let is_private = random.below(6) == 0;
        let address = match is_private {
            true => format!("10.{}.{}.1", time.boot % 250, number),
            false => format!("198.{}.{}.{}", 51 + number / 12, number % 3, number),
        };
        let arm = random.below(2) as u8;
        let ticks = 250 * (1 + u32::from(arm)) + random.below(7) as u32;
        let mut record = record(&address, arm, ticks);
        if is_private {
            (record.domain, record.netns_cookie) = (4097, 4097);
        }
        let key = key_bytes(&lineage(&record).node(Level::Path)).to_vec();
        if is_private {
            self.of_boot.insert(key.clone());
        }
        *self.sent.entry(key).or_default() += 1;
        self.kernel.ring.lock().unwrap().push_back(record);
    }

    pub(super) fn begin(&mut self) {
        self.begun = self.snapshot();
        self.begins
            .insert(self.begun.number + 1, self.begun.clock_s);
    }

    /// A part of a save, or all of it.
    pub(super) fn save(
        &mut self,
        save: impl FnOnce(&mut Host) -> Result<(), String>,
        begins: bool,
    ) -> Outcome {
        if begins {
            self.begin();
        }
        let Some(host) = &mut self.host else {
            return Ok(());
        };
        let is_begun = begins || host.saves.saving.is_some();
        let saved = save(host);
        let is_complete = is_begun && host.saves.saving.is_none();
        let saved = match self.planted {
            Some(Planted::EarlyAcknowledgement) => Ok(()),
            _ => saved,
        };
        let whole = simulated_disk::with(|disk| disk.whole.len());
        if saved.is_ok() && is_begun && !is_complete {
            self.acknowledged.whole = whole;
        }
        if saved.is_ok() && is_complete {
            self.acknowledged = Snapshot {
                number: self.number.load(Relaxed),
                whole,
                ..self.begun.clone()
            };
        }
        Ok(())
    }

    pub(super) fn take_over(&mut self, works: bool) -> Outcome {
        self.begin();
        let Some(host) = &mut self.host else {
            return Ok(());
        };
        let prepared = host.prepare_hand_over();
        if simulated_disk::with(|disk| disk.is_down) {
            return Ok(());
        }
        if prepared.is_ok() {
            self.acknowledged = Snapshot {
                number: self.number.load(Relaxed),
                whole: simulated_disk::with(|disk| disk.whole.len()),
                ..self.begun.clone()
            };
        }
        let is_hasty = self.planted == Some(Planted::HastySuccessor);
        let works = works && (prepared.is_ok() || is_hasty);
        let counts = prepared.ok().flatten();
        if !works {
            host.set_resting(false);
            return Ok(());
        }
        let saved_ns = host.saves.saved_ns;
        let told = serde_json::to_string(&counts).map_err(|error| error.to_string())?;
        let counts: Option<Counts> =
            serde_json::from_str(&told).map_err(|error| error.to_string())?;
        if counts.is_none() {
            self.kernel.read.store(0, Relaxed);
        }
        simulated_disk::with(|disk| disk.at_sync = None);
        self.host = None;
        self.start(Some((counts, saved_ns)))?;
        if simulated_disk::with(|disk| disk.is_down) {
            return Ok(());
        }
        let now = self.snapshot();
        self.has_evidence(&now)?;
        match self.is_aged {
            true => Ok(()),
            false => World::has_all(&self.acknowledged, &now, "after a take-over"),
        }
    }

    pub(super) fn ask(&mut self, seed: u64) -> Outcome {
        let mut random = Random(seed);
        let Some(learning) = self.host.as_ref().map(|host| Rc::clone(&host.learning)) else {
            return Ok(());
        };
        let Some(status) = learning.status() else {
            let listed = learning.for_each_path(|_| {});
            return check(listed.is_err(), || {
                "a list of a learner that hangs".to_owned()
            });
        };
        let read = self.kernel.read.load(Relaxed);
        check(status.records == read, || {
            format!("{} of {read} records are in the answer", status.records)
        })?;
        let mut listed = Vec::new();
        let answered = learning.for_each_path(|path| {
            let class = path.view.class.clone();
            listed.push((path.view.prefix.to_string(), class, path.netns));
            if random.below(8) == 0 {
                self.send(&mut random);
            }
        });
        check(answered.is_ok(), || "no list of paths".to_owned())?;
        let count = listed.len();
        let met: HashSet<_> = listed.iter().map(|path| format!("{path:?}")).collect();
        check(met.len() == count, || "a path is listed twice".to_owned())?;
        check(count as u64 >= status.paths, || {
            format!("{count} of {} paths are listed", status.paths)
        })?;
        check(status.updates <= status.records, || {
            "too many updates".to_owned()
        })
    }

    pub(super) fn pass(&mut self, ms: u64) {
        let mut time = simulated::time().unwrap_or_else(|| unreachable!());
        time.monotonic_ns += ms * 1_000_000;
        simulated::set(Some(time));
    }

    pub(super) fn set_slow(&mut self, is_slow: bool, seed: u64) {
        let learning = self.host.as_ref().map(|host| Rc::clone(&host.learning));
        let at_sync = learning.filter(|_| is_slow).map(|learning| {
            let random = std::cell::Cell::new(seed);
            let at_sync: Rc<dyn Fn()> = Rc::new(move || {
                let mut drawn = Random(random.get());
                let mut time = simulated::time().unwrap_or_else(|| unreachable!());
                time.monotonic_ns += drawn.below(4000) as u64 * 1_000_000;
                random.set(drawn.bits());
                simulated::set(Some(time));
                learning.turn();
            });
            at_sync
        });
        simulated_disk::with(|disk| disk.at_sync = at_sync);
    }

    pub(super) fn step(&mut self, Step(act, seed): Step) -> Outcome {
        simulated_disk::with(|disk| disk.seed = seed);
        let mut away_s = 0;
        match act {
            Act::Records(count) => {
                let mut random = Random(seed);
                (0..count).for_each(|_| self.send(&mut random));
            }
            Act::Pass(ms) => self.pass(ms),
            Act::Hang(hangs) => {
                let learning = self.host.iter().map(|host| &host.learning);
                learning.for_each(|learning| learning.hang(hangs));
            }
            Act::BeginSave => self.save(Saver::begin_save, true)?,
            Act::GoOn => self.save(Saver::go_on_saving, false)?,
            Act::Save => self.save(Saver::save, true)?,
            Act::Crash(crash, seconds) => {
                simulated_disk::with(|disk| disk.is_down = true);
                (self.crash, away_s) = (crash, seconds);
            }
            Act::CrashIn(changes, crash) => {
                simulated_disk::with(|disk| disk.crash_in = Some(changes));
                self.crash = crash;
            }
            Act::TakeOver(works) => self.take_over(works)?,
            Act::Question => self.ask(seed)?,
            Act::Jump(by_s) => {
                let mut time = simulated::time().unwrap_or_else(|| unreachable!());
                time.wall_s = (time.wall_s + by_s).clamp(0, 2 * RIGHT_S);
                simulated::set(Some(time));
                self.faults += 1;
            }
            Act::Room(room) => simulated_disk::with(|disk| {
                disk.room = room.map(|room| disk.used_bytes() + room);
            }),
            Act::Errors(before, count) => {
                simulated_disk::with(|disk| disk.errors = Some((before, count)));
            }
            Act::Slow(is_slow) => self.set_slow(is_slow, seed),
            Act::Vanish => {
                let _ = fs::remove_file(&self.file);
                let name = self.name();
                simulated_disk::with(|disk| {
                    disk.remove(&name);
                    disk.remove(&format!("{name}-journal"));
                });
                self.acknowledged = Snapshot::default();
                self.begun = Snapshot::default();
            }
        }
        let time = simulated::time().unwrap_or_else(|| unreachable!());
        let ages_count = self
            .host
            .as_ref()
            .is_some_and(|host| host.saves.state_file.ages_count());
        self.is_aged |= ages_count && (time.wall_s - RIGHT_S).abs() > 60;
        if simulated_disk::with(|disk| disk.is_down) {
            self.restart(self.crash, away_s)?;
        }
        self.host.iter().for_each(|host| host.learning.turn());
        self.rows_have_evidence()
    }
}
