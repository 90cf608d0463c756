"""Runs inside a machine and prints, as JSON, the features of its kernel.

Loads a sockops program through bpf(2) itself, without a compiler or library:
`python -m tcplab.vm matrix --kernels all -- python3 tests/guest_probe.py`.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
from pathlib import Path

_BPF_SYSCALL = 321  # x86-64
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_SOCK_OPS, _ATTACH_CGROUP_SOCK_OPS = 13, 3
# r0 = 1; exit
_PROGRAM = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0)
_LIBC = ctypes.CDLL(None, use_errno=True)

ALGORITHMS = ["tcp_bbr", "tcp_htcp", "tcp_dctcp"]
QUEUES = ["netem", "fq", "htb", "tbf", "red", "pie", "codel", "fq_codel", "sfq", "cake"]
MODULES = [*ALGORITHMS, *(f"sch_{queue}" for queue in QUEUES), "veth"]


def bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    answer = _LIBC.syscall(_BPF_SYSCALL, command, buffer, 128)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"bpf({command})")
    return int(answer)


def attach_sockops(cgroup: Path) -> str:
    """Attaches the program and returns the attached programs according to bpftool."""
    code = ctypes.create_string_buffer(_PROGRAM, len(_PROGRAM))
    licence = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "<IIQQ",
        _PROG_TYPE_SOCK_OPS,
        len(_PROGRAM) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
    )
    program = bpf(_PROG_LOAD, load)
    folder = os.open(cgroup, os.O_RDONLY)
    bpf(_PROG_ATTACH, struct.pack("<III", folder, program, _ATTACH_CGROUP_SOCK_OPS))
    listing = subprocess.run(
        ["bpftool", "-j", "cgroup", "show", str(cgroup)], capture_output=True, text=True
    )
    return ",".join(entry["attach_type"] for entry in json.loads(listing.stdout))


def loadable(module: str) -> bool:
    return subprocess.run(["modprobe", module], capture_output=True).returncode == 0


def main() -> None:
    stats = Path("/proc/sys/kernel/bpf_stats_enabled")
    stats.write_text("1")
    sysctls = Path("/proc/sys/net")
    facts = {
        "release": os.uname().release,
        "btf_bytes": Path("/sys/kernel/btf/vmlinux").stat().st_size,
        "attached": attach_sockops(Path(os.environ["TCPLAB_CGROUP"])),
        "bpf_stats_enabled": stats.read_text().strip(),
        "modules": [module for module in MODULES if loadable(module)],
        "mptcp": (sysctls / "mptcp/enabled").exists(),
        "available": (sysctls / "ipv4/tcp_available_congestion_control").read_text().split(),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
