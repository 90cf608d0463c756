//! Asks the kernel whether programs may see the calls of one of its functions.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::{
    btf::TypeId,
    libbpf_sys::{
        BPF_ALU64, BPF_EXIT, BPF_JMP, BPF_K, BPF_MOV, BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY,
        bpf_insn, bpf_prog_load, bpf_prog_load_opts,
    },
};

use crate::types::KernelTypes;

/// Whether the kernel has a function of this name and lets programs see its calls. Some hosts do not, by their
/// build or their policy.
pub(crate) fn may_trace(name: &str) -> bool {
    let function = KernelTypes::get()
        .ok()
        .and_then(|types| types.function(name));
    function.is_some_and(loads_at)
}

/// Loads a program that does nothing, to find out.
fn loads_at(function: TypeId) -> bool {
    let nothing = [
        bpf_insn {
            code: (BPF_ALU64 | BPF_MOV | BPF_K) as u8,
            ..bpf_insn::default()
        },
        bpf_insn {
            code: (BPF_JMP | BPF_EXIT) as u8,
            ..bpf_insn::default()
        },
    ];
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as u64,
        expected_attach_type: BPF_TRACE_FENTRY,
        attach_btf_id: function.into(),
        ..bpf_prog_load_opts::default()
    };
    // SAFETY: the strings end with a zero, and all outlive the call.
    let fd = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_TRACING,
            c"tcpilot_probe".as_ptr(),
            c"GPL".as_ptr(),
            nothing.as_ptr(),
            nothing.len() as u64,
            &raw mut options,
        )
    };
    if fd >= 0 {
        // SAFETY: a descriptor just opened here, without another owner.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    fd >= 0
}
