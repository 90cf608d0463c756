//! Runs and time of the sockops programs of a cgroup (bpf(2)): the cost of a tuner to the kernel.
//!
//! The kernel counts both while somebody holds the descriptor that `BPF_ENABLE_STATS` gave; no
//! sysctl is changed, and nothing has to be undone.

use super::record::ProgramRow;
use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

// enum bpf_cmd, enum bpf_attach_type and enum bpf_stats_type of include/uapi/linux/bpf.h.
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const PROG_QUERY: libc::c_int = 16;
const ENABLE_STATS: libc::c_int = 32;
const CGROUP_SOCK_OPS: u32 = 3;
const STATS_RUN_TIME: u32 = 0;

/// As many programs as a cgroup can have attached (`BPF_CGROUP_MAX_PROGS`).
const PROGRAMS_MAX: usize = 64;

/// The fields of `union bpf_attr` for `BPF_PROG_QUERY`.
#[repr(C)]
#[derive(Default)]
struct Query {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_count: u32,
    padding: u32,
}

/// Those for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
#[derive(Default)]
struct InfoOf {
    fd: u32,
    length: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to the counters, in 64-bit words.
type Info = [u64; 26];
const NAME_AT: usize = 8;
const NAME_WORDS: usize = 2;
const RUN_TIME_AT: usize = 24;
const RUNS_AT: usize = 25;

/// Reads the programs of one cgroup.
#[derive(Debug)]
pub struct ProgramReader {
    cgroup: File,
    /// While it is open, the kernel counts.
    _counting: OwnedFd,
}

impl ProgramReader {
    /// Opens the cgroup, and has the kernel count.
    ///
    /// # Errors
    /// [`Error::Io`]; both need privileges.
    pub fn open(cgroup: &Path) -> Result<Self> {
        let mut kind = STATS_RUN_TIME;
        let counting = call(ENABLE_STATS, &mut kind);
        let counting = counting.map_err(Error::io("counting the runs of BPF programs"))?;
        Ok(Self {
            cgroup: File::open(cgroup).map_err(Error::io("opening the cgroup"))?,
            // SAFETY: the kernel has just made this descriptor for us alone.
            _counting: unsafe { OwnedFd::from_raw_fd(counting) },
        })
    }

    /// The programs that are attached now, and their counts so far.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self, t_s: f64) -> Result<Vec<ProgramRow>> {
        let ids = self.attached().map_err(Error::io("asking for programs"))?;
        // One that was detached meanwhile is gone.
        let found = ids.into_iter().filter_map(|id| info_of(id).ok());
        Ok(found.map(|info| row(t_s, &info)).collect())
    }

    fn attached(&self) -> io::Result<Vec<u32>> {
        let mut ids = [0u32; PROGRAMS_MAX];
        let mut query = Query {
            target_fd: self.cgroup.as_raw_fd().unsigned_abs(),
            attach_type: CGROUP_SOCK_OPS,
            prog_ids: ids.as_mut_ptr() as u64,
            prog_count: PROGRAMS_MAX as u32,
            ..Query::default()
        };
        call(PROG_QUERY, &mut query)?;
        Ok(ids[..(query.prog_count as usize).min(PROGRAMS_MAX)].to_vec())
    }
}

fn info_of(id: u32) -> io::Result<Info> {
    let mut wanted = [id, 0, 0];
    let raw = call(PROG_GET_FD_BY_ID, &mut wanted)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    let program = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut info: Info = [0; 26];
    let mut ask = InfoOf {
        fd: program.as_raw_fd().unsigned_abs(),
        length: size_of::<Info>() as u32,
        info: info.as_mut_ptr() as u64,
    };
    call(OBJ_GET_INFO_BY_FD, &mut ask)?;
    Ok(info)
}

fn row(t_s: f64, info: &Info) -> ProgramRow {
    let name: Vec<u8> = info[NAME_AT..NAME_AT + NAME_WORDS]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    ProgramRow {
        t_s,
        // Type and number share the first word.
        program: u32::from_ne_bytes(half(info[0], 4)),
        name: String::from_utf8_lossy(&name).into_owned(),
        runs: info[RUNS_AT],
        ns: info[RUN_TIME_AT],
    }
}

/// Four bytes of a word, as they lie in memory.
fn half(word: u64, at: usize) -> [u8; 4] {
    let bytes = word.to_ne_bytes();
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

/// bpf(2); the kernel takes what lies behind the attribute's end for zeros.
fn call<T>(command: libc::c_int, attribute: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the attribute is a structure of ours of the size that is given, and the memory that it
    // names outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attribute),
            size_of::<T>(),
        )
    };
    match libc::c_int::try_from(answer) {
        Ok(found) if found >= 0 => Ok(found),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_from_the_kernels_structure() {
        let mut raw = [0u8; size_of::<Info>()];
        // Offsets of struct bpf_prog_info: type, id, name, run_time_ns, run_cnt.
        for (at, bytes) in [
            (0, 13u32.to_ne_bytes().to_vec()),
            (4, 77u32.to_ne_bytes().to_vec()),
            (64, b"pilot_sockops".to_vec()),
            (192, 4000u64.to_ne_bytes().to_vec()),
            (200, 16u64.to_ne_bytes().to_vec()),
        ] {
            raw[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let mut info: Info = [0; 26];
        for (word, bytes) in info.iter_mut().zip(raw.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        let found = row(1.5, &info);
        assert_eq!((found.program, found.runs, found.ns), (77, 16, 4000));
        assert_eq!(found.name, "pilot_sockops");
    }
}
