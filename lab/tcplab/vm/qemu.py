"""QEMU's command line for a machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tcplab.vm.arch import AMD64, Arch, host
from tcplab.vm.errors import SetupError

PORTS = ("stdout", "stderr", "control")

# quiet and loglevel=4: the console log holds errors only, and every panic.
# oops=panic: a kernel bug must end the run, not merely kill the command.
# tsc=reliable, no_timer_check, mitigations=off, rodata=off: a second of calibration, patching
# and checking less.
# rcu_expedited: namespaces go away at once, not a grace period later.
_KERNEL_OPTIONS = (
    "quiet loglevel=4 panic=-1 oops=panic tsc=reliable no_timer_check "
    "mitigations=off apparmor=0 rodata=off random.trust_cpu=on rcupdate.rcu_expedited=1"
)


@dataclass(frozen=True)
class Share:
    """A host folder, mounted by the guest over 9p by its tag."""

    tag: str
    path: Path
    writable: bool = False


def program(arch: Arch = AMD64) -> str:
    found = shutil.which(arch.emulator)
    if not found:
        remedy = "python -m tcplab.vm setup" if arch == host() else "scripts/setup arm64"
        raise SetupError(f"{arch.emulator} is not installed; run: {remedy}")
    return found


@dataclass(frozen=True)
class Boot:
    """The machine for the emulator to start."""

    kernel: Path
    initramfs: Path
    console: Path
    cpus: int
    memory: str
    kvm: bool
    virtual_time: bool
    shares: tuple[Share, ...]
    arch: Arch = AMD64


def arguments(boot: Boot, port_paths: dict[str, str]) -> list[str]:
    """The command line; `port_paths` has the file of each of PORTS."""
    line = [program(boot.arch), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    line += ["-machine", boot.arch.board, "-smp", str(boot.cpus), "-m", boot.memory]
    line += _accelerator(boot)
    line += ["-kernel", str(boot.kernel), "-initrd", str(boot.initramfs)]
    line += ["-append", f"console={boot.arch.console} {_KERNEL_OPTIONS}"]
    line += ["-serial", f"file:{_quoted(str(boot.console))}", "-device", "virtio-serial-pci"]
    for port in PORTS:
        line += ["-chardev", f"file,id={port},path={_quoted(port_paths[port])}"]
        line += ["-device", f"virtserialport,chardev={port},name={port}"]
    for share in boot.shares:
        access = "off" if share.writable else "on"
        line += ["-fsdev", f"local,id={share.tag},path={_quoted(str(share.path))},"]
        line[-1] += f"security_model=none,readonly={access},multidevs=remap"
        line += ["-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"]
    return line


def _accelerator(boot: Boot) -> list[str]:
    if boot.kvm:
        return ["-accel", "kvm", "-cpu", "host"]
    # One instruction is one nanosecond, and idle time is skipped.
    clock = ["-icount", "shift=0,sleep=off"] if boot.virtual_time else []
    return ["-accel", "tcg", "-cpu", boot.arch.cpu, *clock]


def _quoted(value: str) -> str:
    """QEMU's options end at a comma unless it is doubled."""
    return value.replace(",", ",,")
