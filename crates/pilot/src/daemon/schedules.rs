//! Schedules of the daemon under faults: saves, restarts, take-overs and questions in any order, with crashes between
//! any two writes, a full or slow disk, a learner that hangs, and clocks that jump.
//!
//! What runs is the daemon's own code: the learner's thread step by step (`learning::stepped`), the saving and reading
//! of `saving`, `state_file` and `state`, and SQLite over a disk in memory (`state::simulated_disk`). Clocks stand
//! still until a step moves them. So a seed makes a schedule that happens the same way each time.
//!
//! `make test` tries some thousands; `scripts/schedules` tries as many as you want. A failure shows its seed and the
//! shortest schedule that fails; `SEED=… cargo test -p tcpilot-pilot schedules` repeats it.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tcpilot_abi::tp_record;
use tcpilot_config::Config;
use tcpilot_kernel::{ASSIGNMENT_BUCKETS, Live};
use tcpilot_learner::{Level, Lineage, learner::key_bytes, lineage::Key, saved_at_s};
use tcpilot_random::{Random, first};

use super::{
    learning::{
        Counts, Learning, PolicySettings,
        choice_dists::node_key,
        effect::AssignmentTable,
        ends::{LearnerEnds, LifeSign, OpenConnections, RecordSource},
        learners::tests::{ChoiceDists, record, settings},
        translate::lineage,
    },
    saving::{Saver, Saves},
    state_file::StateFile,
};
use crate::{
    clocks::{self, simulated},
    state::{
        StoredPath,
        simulated_disk::{self, Crash, Disk},
    },
};

/// Records of a schedule come from so many addresses.
const ADDRESSES: usize = 24;
/// A wall clock that is right.
const RIGHT_S: i64 = 1_800_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The class of all records.
const CLASS: u16 = 14;
/// Half-life of a path's samples, in seconds.
const HALF_LIFE_S: f64 = 21_600.0;
/// The learner rounds the time of a row.
const ROUNDED_S: f64 = 0.25;
/// The fewest steps of a schedule, and how many more it can have.
const STEPS: (usize, usize) = (6, 15);
/// One schedule of so many has the report's held-out connections.
const COMPARES: u64 = 128;

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Connections end.
    Records(usize),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// The learner's thread hangs, or goes on.
    Hang(bool),
    BeginSave,
    GoOn,
    Save,
    /// A crash, and the seconds until the next start.
    Crash(Crash, u64),
    /// The host stops after so many changes of the disk.
    CrashIn(u32, Crash),
    /// A successor takes over, if it can be started.
    TakeOver(bool),
    Question,
    /// The wall clock is set, by seconds.
    Jump(i64),
    /// The disk has so many bytes left; `None` without a limit.
    Room(Option<usize>),
    Slow(bool),
    /// After so many changes of the disk, so many fail.
    Errors(u32, u32),
    /// Somebody removes the state file.
    Vanish,
}

/// A step with the seed of its details.
#[derive(Clone, Copy, Debug)]
struct Step(Act, u64);

impl Step {
    fn draw(random: &mut Random) -> Step {
        let crash = [Crash::Kill, Crash::PowerCut][random.below(2)];
        let away_s = [0, 1, 30, 900][random.below(4)];
        let weights = [
            22.0, 12.0, 3.0, 8.0, 6.0, 12.0, 6.0, 12.0, 6.0, 8.0, 3.0, 4.0, 2.0, 3.0, 1.0,
        ];
        let act = match random.weighted(weights.iter().copied()) {
            0 => Act::Records(1 + random.below(12)),
            1 => Act::Pass([20, 60, 1000, 12_000, 60_000, 900_000][random.below(6)]),
            2 => Act::Hang(random.below(2) == 0),
            3 => Act::BeginSave,
            4 => Act::GoOn,
            5 => Act::Save,
            6 => Act::Crash(crash, away_s),
            7 => Act::CrashIn(random.below(40) as u32, crash),
            8 => Act::TakeOver(random.below(4) > 0),
            9 => Act::Question,
            10 => {
                let by_s = [1, 59, 3600, 86_400, 31_536_000, 60 * 31_536_000][random.below(6)];
                Act::Jump(by_s * [1, -1][random.below(2)])
            }
            11 => {
                let room = [0, 600, 5000, 20_000][random.below(4)];
                Act::Room((random.below(3) > 0).then_some(room))
            }
            12 => Act::Slow(random.below(2) == 0),
            13 => Act::Errors(random.below(40) as u32, 1 + random.below(3) as u32),
            _ => Act::Vanish,
        };
        Step(act, random.bits())
    }
}

fn schedule(seed: u64) -> Vec<Step> {
    let mut random = Random(first(seed));
    let count = STEPS.0 + random.below(STEPS.1);
    (0..count).map(|_| Step::draw(&mut random)).collect()
}

/// The kernel's side: it outlives a daemon that becomes another program.
#[derive(Clone, Default)]
struct Kernel {
    dists: ChoiceDists,
    ring: Arc<Mutex<VecDeque<tp_record>>>,
    /// Records that a daemon has read.
    read: Arc<AtomicU64>,
}

impl RecordSource for Kernel {
    fn poll(&mut self, each: &mut dyn FnMut(&tp_record)) -> std::io::Result<()> {
        for record in self.ring.lock().unwrap().drain(..) {
            self.read.fetch_add(1, Relaxed);
            each(&record);
        }
        Ok(())
    }

    fn dropped(&self) -> u64 {
        0
    }
}

impl LifeSign for Kernel {
    fn renew(&self) {}
    fn stop(&self) {}
}

impl AssignmentTable for Kernel {
    fn set(&mut self, _: &[u8; ASSIGNMENT_BUCKETS]) {}
}

impl OpenConnections for Kernel {
    fn live(&self) -> std::io::Result<Live> {
        Ok(Live::default())
    }
}

/// A running daemon.
struct Host {
    saves: Saves,
    learning: Rc<Learning>,
    /// Number of the present save. A path of the tunings has it in the file.
    number: Rc<AtomicU64>,
}

impl Saver for Host {
    fn saves(&mut self) -> &mut Saves {
        &mut self.saves
    }

    fn learning(&self) -> Option<&Learning> {
        Some(&self.learning)
    }

    fn collect(&mut self, _: u64) -> Vec<StoredPath> {
        vec![StoredPath {
            netns: "host".to_owned(),
            prefix: "10.9.0.0/24".parse().unwrap(),
            policy: "web".to_owned(),
            updated_unix_s: self.saves.state_file.clock().now_s() as u64,
            connections: self.number.fetch_add(1, Relaxed) + 1,
            ..StoredPath::default()
        }]
    }

    fn max_age_s(&self) -> u64 {
        7 * 86_400
    }
}

/// The weight of each known path's samples.
type Known = BTreeMap<Vec<u8>, f64>;

/// What a daemon knew at a time.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    paths: Known,
    clock_s: f64,
    number: u64,
    /// Transactions until then.
    whole: usize,
}

struct World {
    kernel: Kernel,
    host: Option<Host>,
    file: PathBuf,
    number: Rc<AtomicU64>,
    /// Records of each path so far.
    sent: BTreeMap<Vec<u8>, u32>,
    /// Paths of namespaces of this boot.
    of_boot: HashSet<Vec<u8>>,
    /// What was saved for certain.
    acknowledged: Snapshot,
    /// What the save under way has at least.
    begun: Snapshot,
    /// The wall clock was wrong for so long that ages count by it.
    is_aged: bool,
    crash: Crash,
    /// Clock of the last daemon, and the time then.
    clock: Option<(f64, u64)>,
    faults: u64,
    /// Whether connections are held out for the report.
    compares: bool,
    /// The learner's clock at the begin of each save.
    begins: BTreeMap<u64, f64>,
    planted: Option<Planted>,
}

/// A fault planted to show that schedules find it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    /// No sync does anything.
    NoSync,
    /// The folder is not synced after a transaction, as with `synchronous = FULL`.
    NoFolderSync,
    /// A save is acknowledged although it failed.
    EarlyAcknowledgement,
    /// Knowledge ages by the wall clock.
    WallClock,
    /// A successor takes over although the save failed.
    HastySuccessor,
}

type Outcome = Result<(), String>;

fn check(is_right: bool, problem: impl FnOnce() -> String) -> Outcome {
    match is_right {
        true => Ok(()),
        false => Err(problem()),
    }
}

impl World {
    fn new(file: PathBuf, planted: Option<Planted>) -> World {
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

    fn policies() -> Vec<PolicySettings> {
        vec![settings(100)]
    }

    fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// Starts a daemon; `counts` are those of the program that it takes over from.
    fn start(&mut self, inherited: Option<(Option<Counts>, u64)>) -> Outcome {
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

    fn snapshot(&self) -> Snapshot {
        let known = self.host.as_ref().and_then(|host| {
            host.learning.look(|learners| {
                let now_s = learners.clock.now_s();
                let learner = &mut learners.policies[0].learner;
                let keys: Vec<_> = learner.paths().collect();
                let mut weight = |key| learner.view(key, now_s).map_or(0.0, |view| view.own_weight);
                let paths = keys
                    .iter()
                    .map(|key| (key_bytes(key).to_vec(), weight(key)));
                (paths.collect::<Known>(), now_s)
            })
        });
        let (paths, clock_s) = known.unwrap_or_default();
        Snapshot {
            paths,
            clock_s,
            number: self.number.load(Relaxed),
            whole: 0,
        }
    }

    /// Whether all parts of the file are of one save: the path of the tunings, the learner's rows, and the clock.
    fn is_of_one_save(&mut self) -> Outcome {
        let Some(host) = &mut self.host else {
            return Ok(());
        };
        if self.acknowledged.whole == 0 && host.saves.state_file.problem().is_some() {
            return Ok(()); // a full disk has no room for a first file
        }
        let error = |error: crate::state::StateError| error.to_string();
        let store = host.saves.state_file.store().map_err(error)?;
        let number = store
            .load()
            .map_err(error)?
            .first()
            .map_or(0, |path| path.connections);
        let saved_s = store.saved_s().map_err(error)?.unwrap_or(f64::INFINITY);
        let mut newest_s = 0.0_f64;
        let each = |key: &[u8], row: &[u8]| {
            newest_s = newest_s.max(saved_at_s(key, row).unwrap_or(0.0));
        };
        store.for_each_row("web", each).map_err(error)?;
        let begun_s = self.begins.get(&number).copied().unwrap_or(0.0);
        let least = self.acknowledged.number;
        check(number >= least, || {
            format!("save {number} is in the file, and {least} was the last")
        })?;
        check(
            saved_s >= begun_s - 1e-3 && saved_s >= newest_s - ROUNDED_S,
            || {
                format!(
                    "parts of two saves: the clock {saved_s}, save {number} begun at {begun_s}, a row of {newest_s}"
                )
            },
        )
    }

    /// Whether `now` has all that was known before, as far as it has not faded.
    fn has_all(before: &Snapshot, now: &Snapshot, what: &str) -> Outcome {
        let left = (-(now.clock_s - before.clock_s).max(0.0) / HALF_LIFE_S).exp2();
        for (key, weight) in &before.paths {
            let there = now.paths.get(key).copied();
            check(
                there.is_some_and(|there| there >= 0.9 * weight * left - 1e-3),
                || format!("{what}: of a path's {weight} samples there are {there:?} ({key:?})"),
            )?;
        }
        Ok(())
    }

    /// The host has stopped: starts it again, and looks at what is left.
    fn restart(&mut self, crash: Crash, away_s: u64) -> Outcome {
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

    /// `whole`: the transactions before the crash.
    fn look_after_restart(&mut self, away_s: u64, whole: usize) -> Outcome {
        let name = self.name();
        let since = self.acknowledged.whole.saturating_sub(1);
        let is_whole = simulated_disk::with(|disk| {
            let now = disk.hash_of(&name);
            let since_last = disk.whole.get(since..whole).unwrap_or_default();
            since_last.contains(&now) || self.acknowledged.whole == 0
        });
        check(is_whole, || {
            let count = whole - since;
            format!("the file is none of the {count} states since the last acknowledged one")
        })?;
        let now = self.snapshot();
        self.has_evidence(&now)?;
        if self.is_aged {
            return Ok(());
        }
        self.is_of_one_save()?;
        let mut before = self.acknowledged.clone();
        before.paths.retain(|key, _| {
            let is_private = key[4..8] != [0; 4];
            !is_private || self.of_boot.contains(key)
        });
        World::has_all(&before, &now, "after a restart")?;
        if let Some((clock_s, _)) = self.clock {
            let most_s = clock_s + away_s as f64 + 3601.0;
            check(now.clock_s >= self.acknowledged.clock_s - 1e-3, || {
                "the clock went back".to_owned()
            })?;
            check(
                self.acknowledged.number == 0 || now.clock_s <= most_s,
                || format!("the clock went on by {} s", now.clock_s - clock_s),
            )?;
        }
        Ok(())
    }

    /// Whether all that is known was seen, in this boot if it is of a namespace.
    fn has_evidence(&self, now: &Snapshot) -> Outcome {
        for (key, weight) in &now.paths {
            let most = self.sent.get(key).copied().unwrap_or(0);
            check(*weight <= f64::from(most) + 1e-3, || {
                format!("a path has {weight} samples of {most} ({key:?})")
            })?;
            let is_private = key[4..8] != [0; 4];
            check(!is_private || self.of_boot.contains(key), || {
                format!("a path of a namespace that ended with its boot is known ({key:?})")
            })?;
        }
        Ok(())
    }

    /// Whether each choice distribution is of a known path, or of a node above one.
    fn rows_have_evidence(&self) -> Outcome {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let known = host.learning.look(|learners| {
            let mut known = HashSet::new();
            let policy = &learners.policies[0];
            for path in policy.learner.paths() {
                for level in Level::ALL {
                    let node = Lineage::of_key(&path.key).node(level);
                    let key = node_key(&node, policy.settings.policy);
                    known.insert(tcpilot_abi::to_bytes(&key).to_vec());
                }
            }
            // What classes have learned from paths of ended namespaces stays.
            for level in [Level::Class, Level::Global] {
                let of = Key {
                    class: CLASS,
                    ..Key::default()
                };
                let key = node_key(&Lineage::of_key(&of).node(level), policy.settings.policy);
                known.insert(tcpilot_abi::to_bytes(&key).to_vec());
            }
            known
        });
        let known = known.unwrap_or_default();
        let dists = self.kernel.dists.0.lock().unwrap();
        let orphan = dists.keys().find(|key| !known.contains(*key));
        check(orphan.is_none(), || {
            format!("a choice distribution has no evidence: {orphan:?}")
        })
    }

    fn send(&mut self, random: &mut Random) {
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

    fn begin(&mut self) {
        self.begun = self.snapshot();
        self.begins
            .insert(self.begun.number + 1, self.begun.clock_s);
    }

    /// A part of a save, or all of it.
    fn save(
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

    fn take_over(&mut self, works: bool) -> Outcome {
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

    fn ask(&mut self, seed: u64) -> Outcome {
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

    fn pass(&mut self, ms: u64) {
        let mut time = simulated::time().unwrap_or_else(|| unreachable!());
        time.monotonic_ns += ms * 1_000_000;
        simulated::set(Some(time));
    }

    fn set_slow(&mut self, is_slow: bool, seed: u64) {
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

    fn step(&mut self, Step(act, seed): Step) -> Outcome {
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

/// Runs a schedule; returns the number of its crashes and jumps.
fn run(file: &std::path::Path, steps: &[Step], planted: Option<Planted>) -> Result<u64, String> {
    let mut world = World::new(file.to_owned(), planted);
    world.compares = steps.first().is_some_and(|step| step.1 % COMPARES == 0);
    let result = world.start(None).and_then(|()| {
        steps.iter().enumerate().try_for_each(|(number, step)| {
            let done = world.step(*step);
            done.map_err(|problem| format!("step {number}: {problem}"))
        })
    });
    let faults = world.faults;
    world.host = None;
    simulated_disk::set(None);
    simulated::set(None);
    result.map(|()| faults)
}

/// Leaves out each step without which the schedule still fails.
fn shortened(
    file: &std::path::Path,
    mut steps: Vec<Step>,
    planted: Option<Planted>,
) -> (Vec<Step>, String) {
    let mut number = steps.len();
    while number > 0 {
        number -= 1;
        let mut fewer = steps.clone();
        fewer.remove(number);
        if run(file, &fewer, planted).is_err() {
            steps = fewer;
        }
    }
    let problem = run(file, &steps, planted).err().unwrap_or_default();
    (steps, problem)
}

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// The first failing schedule, as text.
fn failure(seeds: std::ops::Range<u64>, planted: Option<Planted>) -> (u64, u64, Option<String>) {
    let dir = folder();
    let file = dir.path().join("state.db");
    let (mut count, mut faults) = (0, 0);
    for seed in seeds {
        count += 1;
        match run(&file, &schedule(seed), planted) {
            Ok(more) => faults += more,
            Err(_) => {
                let (steps, problem) = shortened(&file, schedule(seed), planted);
                let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
                let text = format!("SEED={seed}: {problem}\n{}", steps.join("\n"));
                return (count, faults, Some(text));
            }
        }
    }
    (count, faults, None)
}

#[test]
fn no_schedule_of_faults_loses_or_invents_knowledge() {
    let seed = number("SEED", 0);
    let alone = std::env::var("SEED").is_ok();
    let count = number("SCHEDULES", if alone { 1 } else { 3000 });
    let begun = std::time::Instant::now();
    let (tried, faults, failure) = failure(seed..seed + count, None);
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("schedules {tried} faults {faults} seconds {seconds:.1}");
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

#[test]
fn schedules_find_each_planted_fault() {
    for planted in [
        Planted::NoSync,
        Planted::NoFolderSync,
        Planted::EarlyAcknowledgement,
        Planted::WallClock,
        Planted::HastySuccessor,
    ] {
        let (tried, _, failure) = failure(0..1000, Some(planted));
        let text = failure.unwrap_or_default();
        eprintln!(
            "{planted:?} {tried}: {}",
            text.lines().next().unwrap_or_default()
        );
        assert!(!text.is_empty(), "{planted:?}");
    }
}

/// Runs steps with a crash after each number of changes of the disk; returns the number of crashes.
fn crash_at_each(before: &[Act], during: &[Act], crash: Crash) -> u32 {
    let dir = folder();
    let file = dir.path().join("state.db");
    for changes in 0..1000 {
        let crash_in = [Act::CrashIn(changes, crash)];
        let steps = [before, &crash_in, during].concat();
        let steps = steps
            .into_iter()
            .zip(0..)
            .map(|(act, number)| Step(act, first(number)));
        match run(&file, &steps.collect::<Vec<_>>(), None) {
            Ok(0) => return changes,
            Ok(_) => {}
            Err(problem) => panic!("a {crash:?} after {changes} changes: {problem}"),
        }
    }
    1000
}

const SAVED: [Act; 2] = [Act::Records(12), Act::Save];

#[test]
fn power_cut_after_a_save_loses_none_of_it() {
    let dir = folder();
    let file = dir.path().join("state.db");
    for seed in 0..50 {
        let acts = [[Act::Records(2), Act::Save]; 3].concat();
        let mut steps: Vec<Step> = acts.iter().map(|act| Step(*act, first(seed))).collect();
        steps.push(Step(Act::Crash(Crash::PowerCut, 0), seed));
        assert_eq!(run(&file, &steps, None).map(drop), Ok(()), "{seed}");
    }
}

#[test]
fn crash_between_any_two_writes_leaves_one_save() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        let saves: [&[Act]; 2] = [
            &[Act::Records(9), Act::Save],
            &[Act::Records(40), Act::Save],
        ];
        for (before, during) in [(&SAVED[..], saves[0]), (&[], saves[1])] {
            let crashes = crash_at_each(before, during, crash);
            assert!(crashes > 10, "{crashes}");
        }
    }
}

#[test]
fn a_failed_save_keeps_the_former_program() {
    for fault in [Act::Room(Some(0)), Act::Hang(true)] {
        let dir = folder();
        let file = dir.path().join("state.db");
        let acts = [&SAVED[..], &[fault, Act::Records(12), Act::TakeOver(true)]].concat();
        let after = [Act::Room(None), Act::Hang(false), Act::Save, Act::Question];
        let acts = acts.into_iter().chain(after).zip(0..);
        let steps: Vec<Step> = acts.map(|(act, number)| Step(act, first(number))).collect();
        assert_eq!(run(&file, &steps, None), Ok(0));
    }
}

#[test]
fn save_without_an_answer_is_none() {
    let dir = folder();
    let file = dir.path().join("state.db");
    let acts = [
        Act::Records(12),
        Act::Hang(true),
        Act::Save,
        Act::Crash(Crash::Kill, 0),
    ];
    let steps = acts.into_iter().zip(0..);
    let steps: Vec<Step> = steps
        .map(|(act, number)| Step(act, first(number)))
        .collect();
    assert_eq!(run(&file, &steps, None), Ok(1));
}
