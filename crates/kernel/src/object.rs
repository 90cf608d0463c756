//! What the loaders of the pilot and of the watch share: structures of ours in a BPF object's memory,
//! what the kernel says of a program, and the errors of both.

use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use tcpilot_abi::Plain;

use crate::Error;

/// The object was compiled without the section that the configuration is written to.
pub(crate) fn no_section() -> Error {
    Error::System {
        action: "find the configuration in the BPF object",
        source: std::io::ErrorKind::NotFound.into(),
    }
}

/// Names what was being done when libbpf refused.
pub(crate) fn map_error(action: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| Error::Map { action, source }
}

/// Writes a structure of ours over libbpf-cargo's twin of it, which was generated from the same header.
pub(crate) fn write_plain<T: Plain, U>(to: *mut U, value: &T) {
    const { assert!(size_of::<T>() == size_of::<U>()) };
    // SAFETY: both have the size asserted above, `to` comes from a reference, and the memory behind it
    // is shared with the kernel, so it is written through a pointer and volatile.
    unsafe { to.cast::<T>().write_volatile(*value) }
}

/// The bytes of a structure of the object, for [`tcpilot_abi::from_bytes`].
pub(crate) fn bytes_of<U>(value: &U) -> &[u8] {
    // SAFETY: the bytes of a live reference; the generated structures are integers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<U>()) }
}

/// What the kernel knows of a loaded program; `None` where it does not say.
pub(crate) fn program_info(fd: i32) -> Option<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut len = size_of::<bpf_prog_info>() as u32;
    // SAFETY: info is writable for len bytes.
    let result = unsafe { bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut len) };
    (result == 0).then_some(info)
}
