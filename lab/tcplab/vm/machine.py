"""Runs one command in a machine of its own: `run` boots a kernel, streams the command's
output while it runs, returns its exit status, and leaves nothing behind.

Inside, the host's files are visible at their own paths and writable, but the command's writes are
dropped, except below `rw`.  /tmp and /run are the machine's own.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from tcplab.vm import arch, extra, initramfs, kernels, kvm, qemu
from tcplab.vm.cache import cache_dir
from tcplab.vm.errors import SetupError, VmError
from tcplab.vm.process import Sinks, cleanup_on_signals, supervise

CGROUP_MOUNT = "/sys/fs/cgroup"
_FILES = "/run/tcplab"
"""The machine's folder for the files of its initramfs."""
_KEPT_LOGS = 20
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Machine:
    """A machine to boot.  The defaults suit a short test."""

    kernel: str
    """A name of kernels.toml, or the path of one's own (tcplab.vm.own)."""
    cpus: int = 1
    memory: str = "1G"
    virtual_time: bool = False
    """Tie the guest's clock to its instructions (1 ns each) and skip idle time."""
    timeout_s: float | None = None
    """Wall-clock limit for boot and command together."""
    rw: Sequence[Path] = ()
    """Host folders that keep the guest's writes."""
    root: Path = Path("/")
    """The user land, of the kernel's architecture; another one sees the host in /host."""
    systemd: bool = False
    """The root's systemd is the first process, and the command a service of it."""
    modules: Sequence[str] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    kvm: bool | None = None
    """None: if it boots this kernel, tried once; never in virtual time."""

    def __post_init__(self) -> None:
        if self.virtual_time and self.cpus != 1:
            raise ValueError("virtual time needs exactly one CPU")
        if self.virtual_time and self.kvm:
            raise ValueError("virtual time counts emulated instructions; KVM has none")


@dataclass(frozen=True)
class Result:
    """How a command ended.  `stdout` and `stderr` are empty if they went to a file."""

    status: int
    stdout: bytes
    stderr: bytes
    release: str
    kvm: bool
    boot_s: float
    """Wall seconds from the start of the emulator to the start of the command."""
    wall_s: float


def run(
    machine: Machine,
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> Result:
    """Boots `machine`, runs `command` in it, and returns how it ended.

    The output is streamed to `stdout` and `stderr` if given, else captured.  After a signal the
    status is the shell's: 128 plus the signal's number.  Raises the classes of tcplab.vm.errors
    when the command could not run to its end.
    """
    kernel = kernels.fetch(machine.kernel)
    machine = replace(machine, kvm=_uses_kvm(machine, kernel), kernel=kernel.name)
    started = time.monotonic()
    workplace = Path(tempfile.mkdtemp(prefix="tcplab-vm-"))
    with cleanup_on_signals():
        try:
            shares = _shares(machine, kernel)
            built = extra.prepare(kernel, machine.modules)
            files = guest_files(machine, kernel, shares, command, cwd or Path.cwd(), built)
            boot = _boot(machine, kernel, shares, files, workplace)
            sinks = Sinks(stdout, stderr)
            ended = supervise(boot, sinks, machine.timeout_s)
        except VmError as problem:
            raise _with_log(problem, workplace / "console.log", machine.kernel) from None
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
    return Result(
        status=ended.status,
        stdout=bytes(sinks.captured["stdout"]),
        stderr=bytes(sinks.captured["stderr"]),
        release=kernel.release,
        kvm=bool(machine.kvm),
        boot_s=ended.boot_s,
        wall_s=time.monotonic() - started,
    )


def _uses_kvm(machine: Machine, kernel: kernels.Kernel) -> bool:
    if machine.virtual_time or kernel.arch != arch.host().debian:
        return False
    if machine.kvm is not None:
        return machine.kvm
    probe = Machine(machine.kernel, kvm=True, timeout_s=kvm.PROBE_TIMEOUT_S)
    return kvm.works(kernel.version, lambda: run(probe, ["true"], cwd=Path("/")))


def _boot(
    machine: Machine,
    kernel: kernels.Kernel,
    shares: tuple[qemu.Share, ...],
    files: dict[str, bytes],
    workplace: Path,
) -> qemu.Boot:
    modules = initramfs.module_files(kernel.modules_base, kernel.release, initramfs.BOOT_MODULES)
    image = workplace / "initramfs"
    image.write_bytes(initramfs.build(busybox_of(machine, kernel), modules, files))
    return qemu.Boot(
        kernel=kernel.vmlinux,
        initramfs=image,
        console=workplace / "console.log",
        cpus=machine.cpus,
        memory=machine.memory,
        kvm=bool(machine.kvm),
        virtual_time=machine.virtual_time,
        shares=shares,
        arch=arch.of(kernel.arch),
    )


def busybox_of(machine: Machine, kernel: kernels.Kernel) -> Path:
    """This host's; a machine of another architecture has its root's static one."""
    if kernel.arch == arch.host().debian:
        return initramfs.find_busybox()
    found = machine.root / "usr/bin/busybox"
    if machine.root == Path("/") or not found.exists():
        raise SetupError(
            f"kernel {machine.kernel} is of {kernel.arch} and needs a root of it with a static "
            f"busybox, such as trixie-{kernel.arch}"
        )
    return found


def _shares(machine: Machine, kernel: kernels.Kernel) -> tuple[qemu.Share, ...]:
    fixed = [qemu.Share("root", machine.root.resolve()), qemu.Share("modules", kernel.modules)]
    if machine.root != Path("/"):
        fixed.append(qemu.Share("host", Path("/")))
    kept = [qemu.Share(f"rw{i}", path.resolve(), True) for i, path in enumerate(machine.rw)]
    return (*fixed, *kept)


def guest_files(
    machine: Machine,
    kernel: kernels.Kernel,
    shares: tuple[qemu.Share, ...],
    command: Sequence[str],
    cwd: Path,
    built: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, bytes]:
    """The scripts read by guest/init.sh and guest/run.sh, and modules built for us, by name."""
    guest = Path(__file__).parent / "guest"
    files = {f"{name}.ko": path.read_bytes() for name, path in built.items()}
    places = tuple(f"{_FILES}/{name}.ko" if name in built else name for name in machine.modules)
    loaded = replace(machine, modules=places)
    return files | {
        "config": config_script(loaded, kernel.release, shares, cwd).encode(),
        "command": command_script(machine, kernel.release, command, cwd).encode(),
        "run.sh": (guest / "run.sh").read_bytes(),
        "tcplab.service": (guest / "tcplab.service").read_bytes(),
    }


def config_script(machine: Machine, release: str, shares: tuple[qemu.Share, ...], cwd: Path) -> str:
    """Shell definitions: mounts, modules and settings."""
    mounts = [f"share modules {_below_root(Path('/lib/modules') / release)} ro loose"]
    for share in shares:
        if share.tag == "host":
            mounts += ["share host host ro loose"]
    source = "/lower" if machine.root == Path("/") else "host"
    if machine.root != Path("/") or cwd.is_relative_to("/tmp"):
        # Not there otherwise: another user land lacks it, or the machine's own /tmp hides it.
        here = _below_root(cwd)
        mounts += [f"make {here}", f"$bb mount --bind {source}{shlex.quote(str(cwd))} {here}"]
    for share in shares:
        if share.writable:
            place = _below_root(share.path)
            mounts += [f"share {share.tag} {place} rw mmap"]
    settings = [f"set_sysctl {key} {shlex.quote(str(v))}" for key, v in machine.sysctls.items()]
    return (
        f"hostname=tcplab-{machine.kernel}\n"
        f"systemd={'yes' if machine.systemd else ''}\n"
        f"modules={shlex.quote(' '.join(machine.modules))}\n"
        f"mount_shares() {{\n{_lines(mounts)}}}\n"
        f"set_sysctls() {{\n{_lines(settings)}}}\n"
    )


def command_script(machine: Machine, release: str, command: Sequence[str], cwd: Path) -> str:
    """The script that ends by becoming the command."""
    environment = {
        "PATH": _PATH,
        "HOME": "/root",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "TCPLAB_KERNEL": release,
        "TCPLAB_CGROUP": CGROUP_MOUNT,
        **machine.env,
    }
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in environment.items())
    return f"{exports}cd {shlex.quote(str(cwd))} || exit 125\nexec {shlex.join(command)}\n"


def _below_root(path: Path) -> str:
    """`path` as init.sh sees it, whose working directory is the coming root."""
    return shlex.quote(str(path).lstrip("/"))


def _lines(commands: Sequence[str]) -> str:
    return "".join(f"    {command}\n" for command in commands or [":"])


def _with_log(problem: VmError, console: Path, kernel: str) -> VmError:
    """The same error, with the console log's name, after moving the log to its final place."""
    if not console.exists():
        return problem
    folder = cache_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"), key=lambda p: p.stat().st_mtime)[:-_KEPT_LOGS]:
        old.unlink(missing_ok=True)
    kept = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{kernel}-{time.monotonic_ns()}.log"
    shutil.copyfile(console, kept)
    return type(problem)(f"{problem}; console log: {kept}")
