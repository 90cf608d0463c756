//! The disk as a virtual file system of SQLite: each function keeps to <https://sqlite.org/c3ref/vfs.html>.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::Once,
};

use rusqlite::ffi;

use super::{Unsynced, with};

/// The name of the file system.
pub const NAME: &CStr = c"tcpilot-simulated";

/// An open file, as SQLite holds it.
#[repr(C)]
struct Open {
    base: ffi::sqlite3_file,
    inode: usize,
    is_journal: bool,
}

/// Makes the file system known to SQLite, once.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let vfs = ffi::sqlite3_vfs {
            iVersion: 1,
            szOsFile: size_of::<Open>() as c_int,
            mxPathname: 512,
            pNext: ptr::null_mut(),
            zName: NAME.as_ptr(),
            pAppData: ptr::null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: Some(last_error),
            xCurrentTimeInt64: None,
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        };
        // SAFETY: the structure lives as long as the process, and its functions keep to SQLite's contract.
        let registered = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
        assert_eq!(registered, ffi::SQLITE_OK);
    });
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The text of a name of SQLite's.
///
/// # Safety
/// It ends with 0, or is null.
unsafe fn text(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises it.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_string_lossy().into_owned()
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with 0, or null for a file without a name.
    let name = unsafe { text(name) };
    let inode = with(|disk| match disk.names.get(&name) {
        _ if disk.is_down => None,
        Some(at) => Some(*at),
        None => disk.may_change().then(|| disk.create(&name)),
    });
    let opened = file.cast::<Open>();
    // SAFETY: SQLite gives room for `szOsFile` bytes.
    unsafe {
        (*opened).base.pMethods = ptr::null();
        let Some(inode) = inode else {
            return ffi::SQLITE_CANTOPEN;
        };
        opened.write(Open {
            base: ffi::sqlite3_file {
                pMethods: &raw const METHODS,
            },
            inode,
            is_journal: flags & ffi::SQLITE_OPEN_MAIN_JOURNAL != 0,
        });
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

/// SQLite promises that it has opened the file.
macro_rules! of {
    ($file:expr) => {
        // SAFETY: `open` has filled it.
        unsafe { &*$file.cast::<Open>() }
    };
}

unsafe extern "C" fn close(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    len: c_int,
    at: i64,
) -> c_int {
    let of = of!(file);
    // SAFETY: SQLite gives room for so many bytes.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len as usize) };
    with(|disk| {
        if disk.is_down {
            return ffi::SQLITE_IOERR;
        }
        let content = &disk.inodes[of.inode].cached;
        let from = content.get(at as usize..).unwrap_or_default();
        let count = from.len().min(to.len());
        to[..count].copy_from_slice(&from[..count]);
        to[count..].fill(0);
        match count == to.len() {
            true => ffi::SQLITE_OK,
            false => ffi::SQLITE_IOERR_SHORT_READ,
        }
    })
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    let of = of!(file);
    // SAFETY: SQLite gives so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len as usize) };
    let at = at as usize;
    with(|disk| {
        if !disk.may_change() {
            return ffi::SQLITE_IOERR_WRITE;
        }
        let more = (at + bytes.len()).saturating_sub(disk.inodes[of.inode].cached.len());
        let room = disk.room.map(|room| room.saturating_sub(disk.used_bytes()));
        let missing = room.map_or(0, |room| more.saturating_sub(room));
        // As write(2) does, it writes what there is room for.
        let bytes = &bytes[..bytes.len().saturating_sub(missing)];
        let bytes = bytes.to_vec();
        disk.inodes[of.inode].change(Unsynced::Write { at, bytes });
        match missing {
            0 => ffi::SQLITE_OK,
            _ => ffi::SQLITE_FULL,
        }
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    let of = of!(file);
    with(|disk| {
        if !disk.may_change() {
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
        disk.inodes[of.inode].change(Unsynced::Resize(len as usize));
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    let of = of!(file);
    let (code, at_sync) = with(|disk| {
        if !disk.may_change() {
            return (ffi::SQLITE_IOERR_FSYNC, None);
        }
        if !disk.ignores_syncs {
            disk.inodes[of.inode].sync();
            if of.is_journal {
                // SQLite's own file system for Unix does so for a new journal.
                disk.sync_names();
            }
        }
        (ffi::SQLITE_OK, disk.at_sync.clone())
    });
    at_sync.inspect(|at_sync| at_sync());
    code
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    let of = of!(file);
    let len = with(|disk| disk.inodes[of.inode].cached.len());
    // SAFETY: SQLite gives a place for the number.
    unsafe { *size = len as i64 };
    ffi::SQLITE_OK
}

/// One process at a time uses the file.
unsafe extern "C" fn lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a place for the number.
    unsafe { *held = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096 // as SQLite's own file system for Unix says
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE // the same
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with 0.
    let name = unsafe { text(name) };
    with(|disk| {
        if !disk.names.contains_key(&name) && !disk.is_down {
            return ffi::SQLITE_IOERR_DELETE_NOENT;
        }
        if !disk.may_change() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        // A transaction ends, forward or back, when its journal is deleted.
        if let Some(database) = name.strip_suffix("-journal") {
            disk.whole.push(disk.hash_of(database));
        }
        disk.names.remove(&name);
        disk.renamings.push((name, None));
        let is_ignored = disk.ignores_syncs || disk.ignores_folder_syncs;
        if sync_folder != 0 && !is_ignored {
            disk.sync_names();
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with 0.
    let name = unsafe { text(name) };
    // To SQLite's own file system an empty file does not exist.
    let exists = with(|disk| {
        let inode = disk.names.get(&name).map(|at| &disk.inodes[*at]);
        inode.is_some_and(|inode| !inode.cached.is_empty())
    });
    // SAFETY: SQLite gives a place for the number.
    unsafe { *out = c_int::from(exists) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with 0, and room for so many bytes.
    unsafe {
        let len = CStr::from_ptr(name).count_bytes() + 1;
        if len > room as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(name, out, len);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, len: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite gives room for so many bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len as usize) };
    out.fill(7);
    len
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite gives a place for the number. No statement of ours asks for the time.
    unsafe { *out = 2_460_000.5 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
