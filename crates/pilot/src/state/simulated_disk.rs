//! A disk in memory under SQLite, for tests of schedules: it crashes between any two writes, loses what was not
//! synced, is full, or is slow. SQLite sees it as a virtual file system (<https://sqlite.org/vfs.html>), so the whole
//! code of saving runs, that of SQLite too.
//!
//! A disk belongs to a thread. Files have a content in the page cache and one on the disk, with the writes between
//! both. A kill of the process leaves the page cache; a power cut keeps any part of these writes, sector by sector. A
//! folder's names are a journal of their own, of which a power cut keeps the first changes.

mod vfs;

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    rc::Rc,
};

use tcpilot_random::{Random, mix};

pub use vfs::NAME;

/// The least that a disk writes as a whole.
const SECTOR: usize = 512;
/// SQLite's default size of a page.
const PAGE: usize = 4096;
/// Where a database has the number of its first list of free pages.
const FIRST_TRUNK: usize = 32;

/// How a host stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed.
    Kill,
    /// The power is cut.
    PowerCut,
}

#[derive(Clone)]
enum Unsynced {
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
}

#[derive(Default)]
struct Inode {
    cached: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Unsynced>,
}

/// The disk of a thread.
#[derive(Default)]
pub struct Disk {
    inodes: Vec<Inode>,
    names: HashMap<String, usize>,
    synced_names: HashMap<String, usize>,
    /// Changes of names since the folder was synced.
    renamings: Vec<(String, Option<usize>)>,
    /// Changes until the host stops; `None`: it goes on.
    pub crash_in: Option<u32>,
    /// Changes until some fail with an I/O error, and how many do.
    pub errors: Option<(u32, u32)>,
    /// Whether the host has stopped.
    pub is_down: bool,
    /// The most bytes of all files; `None` without a limit.
    pub room: Option<usize>,
    /// Decides what a power cut keeps.
    pub seed: u64,
    /// The content of the database each time that a transaction has ended.
    pub whole: Vec<u64>,
    /// Does something at each sync, as another thread would while a slow disk writes.
    pub at_sync: Option<Rc<dyn Fn()>>,
    /// Planted faults, to show that the test finds them.
    pub ignores_syncs: bool,
    /// The same for the folder after a file of it was deleted.
    pub ignores_folder_syncs: bool,
}

thread_local!(static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) });

/// Puts a disk under the databases of this thread; `None`: the real one.
pub fn set(disk: Option<Disk>) {
    vfs::register();
    DISK.set(disk);
}

/// Whether this thread has a simulated disk.
pub fn is_set() -> bool {
    DISK.with_borrow(Option::is_some)
}

/// Does something with this thread's disk.
///
/// # Panics
/// There is none.
pub fn with<T>(f: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with_borrow_mut(|disk| f(disk.as_mut().expect("a simulated disk")))
}

fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().map(|byte| u64::from(*byte));
    let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    words.chain(rest).fold(bytes.len() as u64, |hash, word| {
        (hash ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

/// The leaves of a database's list of free pages (<https://sqlite.org/fileformat2.html#the_freelist>).
fn free_pages(content: &[u8]) -> HashSet<u32> {
    let number = |at: usize| -> Option<u32> {
        let bytes = content.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let mut free = HashSet::new();
    let mut trunk = number(FIRST_TRUNK).unwrap_or(0);
    for _ in 0..content.len() / PAGE {
        let Some(at) = (trunk as usize).checked_sub(1).map(|page| page * PAGE) else {
            break;
        };
        let count = number(at + 4).unwrap_or(0) as usize;
        let leaves = (0..count.min(PAGE / 4)).map(|leaf| number(at + 8 + 4 * leaf));
        free.extend(leaves.flatten());
        trunk = number(at).unwrap_or(0);
    }
    free
}

impl Disk {
    /// The content of a database now, in short, without its free pages: SQLite neither reads them nor restores them.
    pub fn hash_of(&self, name: &str) -> u64 {
        let inode = self.names.get(name).and_then(|at| self.inodes.get(*at));
        inode.map_or(0, |inode| {
            let content = &inode.cached;
            let free = free_pages(content);
            let pages = content.chunks(PAGE).zip(1..);
            let used = pages.filter(|(_, number)| !free.contains(number));
            used.fold(content.len() as u64, |hash, (page, number)| {
                mix(hash ^ mix(number.into())) ^ self::hash(page)
            })
        })
    }

    /// Removes a file, as an administrator would.
    pub fn remove(&mut self, name: &str) {
        for names in [&mut self.names, &mut self.synced_names] {
            names.remove(name);
        }
        self.renamings.retain(|(renamed, _)| renamed != name);
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> usize {
        let files = self.names.values();
        files.map(|at| self.inodes[*at].cached.len()).sum()
    }

    /// Counts a change; false if it fails, or the host stops instead.
    fn may_change(&mut self) -> bool {
        if self.crash_in == Some(0) {
            self.is_down = true;
        }
        if self.is_down {
            return false;
        }
        self.crash_in = self.crash_in.map(|left| left - 1);
        match self.errors {
            Some((0, 0)) => self.errors = None,
            Some((0, left)) => {
                self.errors = Some((0, left - 1));
                return false;
            }
            Some((before, left)) => self.errors = Some((before - 1, left)),
            None => {}
        }
        true
    }

    fn create(&mut self, name: &str) -> usize {
        self.inodes.push(Inode::default());
        let at = self.inodes.len() - 1;
        self.names.insert(name.to_owned(), at);
        self.renamings.push((name.to_owned(), Some(at)));
        at
    }

    fn sync_names(&mut self) {
        self.renamings.clear();
        self.synced_names = self.names.clone();
    }

    /// Starts the host again after a crash.
    pub fn restart(&mut self, crash: Crash) {
        (self.is_down, self.crash_in) = (false, None);
        if crash == Crash::Kill {
            return;
        }
        let mut random = Random(self.seed);
        let kept = random.below(self.renamings.len() + 1);
        for (name, at) in self.renamings.drain(..).take(kept) {
            match at {
                Some(at) => self.synced_names.insert(name, at),
                None => self.synced_names.remove(&name),
            };
        }
        self.names = self.synced_names.clone();
        for inode in &mut self.inodes {
            let share = [0.0, 0.5, 0.9, 1.0][random.below(4)];
            inode.lose(&mut random, share);
        }
    }
}

impl Inode {
    fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
        if content.len() < at + bytes.len() {
            content.resize(at + bytes.len(), 0);
        }
        content[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn change(&mut self, change: Unsynced) {
        match &change {
            Unsynced::Write { at, bytes } => Inode::write(&mut self.cached, *at, bytes),
            Unsynced::Resize(len) => self.cached.resize(*len, 0),
        }
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        self.unsynced.clear();
        self.synced.clone_from(&self.cached);
    }

    /// Keeps this share of the sectors that were written but not synced.
    fn lose(&mut self, random: &mut Random, share: f64) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unsynced::Resize(len) if random.uniform() < share => self.synced.resize(len, 0),
                Unsynced::Resize(_) => {}
                Unsynced::Write { at, bytes } => {
                    let first = (SECTOR - at % SECTOR).min(bytes.len());
                    let (first, rest) = bytes.split_at(first);
                    let mut at = at;
                    for part in std::iter::once(first).chain(rest.chunks(SECTOR)) {
                        if random.uniform() < share {
                            Inode::write(&mut self.synced, at, part);
                        }
                        at += part.len();
                    }
                }
            }
        }
        self.cached.clone_from(&self.synced);
    }
}
