"""Attaches a sockops program to a cgroup.  Runs alongside a cell.

    python3 hold.py OBJECT CGROUP    OBJECT: limit.bpf.c, compiled

Prints "attached"; at SIGTERM it ends, and the kernel detaches the program with it.
Standard library only, and libbpf.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def attach(path: str, cgroup: str) -> None:
    """Until the process ends."""
    lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    for name in ("object__open_file", "object__next_program", "program__attach_cgroup"):
        getattr(lib, f"bpf_{name}").restype = ctypes.c_void_p
    opened = lib.bpf_object__open_file(path.encode(), None)
    if not opened or lib.bpf_object__load(ctypes.c_void_p(opened)):
        sys.exit(f"{path}: cannot be loaded")
    program = ctypes.c_void_p(lib.bpf_object__next_program(ctypes.c_void_p(opened), None))
    if not lib.bpf_program__attach_cgroup(program, os.open(cgroup, os.O_RDONLY)):
        sys.exit(f"{path}: cannot be attached to {cgroup}")


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    attach(sys.argv[1], sys.argv[2])
    print("attached", flush=True)
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
