"""QEMU's command line for a machine, and whether this host's KVM can boot it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tcplab.vm.errors import SetupError

_PROGRAM = "qemu-system-x86_64"
PORTS = ("stdout", "stderr", "control")

# quiet and loglevel=4: the console log holds errors only, and every panic.
# oops=panic: a kernel bug must end the run, not merely kill the command.
# tsc=reliable, no_timer_check, mitigations=off, rodata=off: a second of calibration, patching
# and checking less.
# rcu_expedited: namespaces go away at once, not a grace period later.
_KERNEL_OPTIONS = (
    "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic tsc=reliable no_timer_check "
    "mitigations=off apparmor=0 rodata=off random.trust_cpu=on rcupdate.rcu_expedited=1"
)


@dataclass(frozen=True)
class Share:
    """A host folder that the guest mounts over 9p by its tag."""

    tag: str
    path: Path
    writable: bool = False


def program() -> str:
    found = shutil.which(_PROGRAM)
    if not found:
        raise SetupError(f"{_PROGRAM} is not installed; run: python -m tcplab.vm setup")
    return found


@dataclass(frozen=True)
class Boot:
    """What the emulator is to start."""

    kernel: Path
    initramfs: Path
    console: Path
    cpus: int
    memory: str
    kvm: bool
    virtual_time: bool
    shares: tuple[Share, ...]


def arguments(boot: Boot, port_paths: dict[str, str]) -> list[str]:
    """The command line; `port_paths` says where each of PORTS is written."""
    line = [program(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    line += ["-machine", "pc,hpet=off,vmport=off", "-smp", str(boot.cpus), "-m", boot.memory]
    line += _accelerator(boot)
    line += ["-kernel", str(boot.kernel), "-initrd", str(boot.initramfs)]
    line += ["-append", _KERNEL_OPTIONS]
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
    # A processor that promises fast string instructions makes the kernel copy and clear by bytes
    # (`rep movsb`), and the emulator takes an instruction's time for each byte: eight times as
    # much as by words.
    return ["-accel", "tcg", "-cpu", "max,-erms,-fsrm", *clock]


def _quoted(value: str) -> str:
    """QEMU's options end at a comma unless it is doubled."""
    return value.replace(",", ",,")
