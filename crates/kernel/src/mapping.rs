//! Memory shared by this process and the programs.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use tcpilot_abi::{Plain, from_bytes};

use crate::Error;

/// Part of a map's memory, unmapped on drop. It works without the map's descriptor and its pilot.
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is this value's alone in this process, and all accesses are atomic.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps so many bytes of a map, from this page on; 0 is the start of the map.
    pub(crate) fn new(
        map: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        writable: bool,
    ) -> Result<Mapping, Error> {
        let access = match writable {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        let offset = libc::off_t::try_from(offset).map_err(|_| too_large())?;
        // SAFETY: the kernel chooses a free place for it, so no memory of ours is changed.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(fail(io::Error::last_os_error()));
        }
        let at = NonNull::new(at.cast()).ok_or_else(too_large)?;
        Ok(Mapping { at, len })
    }

    /// The word of 64 bits at this index; `None` beyond the end.
    pub(crate) fn word(&self, number: usize) -> Option<&AtomicU64> {
        let is_inside = number < self.len / size_of::<u64>();
        // SAFETY: within the mapping, which starts on a page and lives as long as self.
        is_inside.then(|| unsafe { self.at.cast::<AtomicU64>().add(number).as_ref() })
    }

    /// The word of 32 bits at this index; `None` beyond the end.
    pub(crate) fn half(&self, number: usize) -> Option<&AtomicU32> {
        let is_inside = number < self.len / size_of::<u32>();
        // SAFETY: as above.
        is_inside.then(|| unsafe { self.at.cast::<AtomicU32>().add(number).as_ref() })
    }

    /// The value with this index, of contiguous structures of whole words. The programs may write it
    /// meanwhile: each word of 64 bits is whole.
    pub(crate) fn value<T: Plain>(&self, number: usize) -> Option<T> {
        const { assert!(size_of::<T>() % size_of::<u64>() == 0) };
        let words = size_of::<T>() / size_of::<u64>();
        let mut bytes = Vec::with_capacity(size_of::<T>());
        for word in number * words..(number + 1) * words {
            bytes.extend(self.word(word)?.load(Ordering::Relaxed).to_ne_bytes());
        }
        from_bytes(&bytes)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in new(), with this length, and nobody else has a reference.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// The size of a page in bytes.
pub(crate) fn page() -> usize {
    rustix::param::page_size()
}

fn fail(source: io::Error) -> Error {
    Error::System {
        action: "map the memory of the programs",
        source,
    }
}

fn too_large() -> Error {
    fail(io::ErrorKind::InvalidInput.into())
}
