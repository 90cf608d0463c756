"""The processor architectures of machines: their names in Debian, the kernel and QEMU.

A machine of another architecture than this host's is emulated, and needs a root of its own.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    debian: str
    """As in a package's name."""
    machine: str
    """As `uname -m` prints it."""
    emulator: str
    board: str
    cpu: str
    """The processor emulated without KVM."""
    console: str
    """The kernel's name for the first serial port."""


AMD64 = Arch(
    debian="amd64",
    machine="x86_64",
    emulator="qemu-system-x86_64",
    board="pc,hpet=off,vmport=off",
    # A processor promising fast string instructions makes the kernel copy and clear by bytes (`rep
    # movsb`), and the emulator takes an instruction's time for each byte: eight times as much as by
    # words.
    cpu="max,-erms,-fsrm",
    console="ttyS0",
)

ARM64 = Arch(
    debian="arm64",
    machine="aarch64",
    emulator="qemu-system-aarch64",
    board="virt",
    # A processor of servers. "max" signs each return address; an emulator does this slowly.
    cpu="neoverse-n1",
    console="ttyAMA0",
)

_KNOWN = {arch.debian: arch for arch in (AMD64, ARM64)}


def of(debian: str) -> Arch:
    """The architecture of this name in Debian; KeyError if it is none of ours."""
    return _KNOWN[debian]


def host() -> Arch:
    """This host's.  Any other counts as amd64, with emulated machines."""
    machine = platform.machine()
    return next((arch for arch in _KNOWN.values() if arch.machine == machine), AMD64)
