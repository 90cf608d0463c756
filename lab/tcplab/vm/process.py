"""Supervises one QEMU: forwards the guest's ports, distinguishes endings, always stops it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from tcplab.vm import qemu
from tcplab.vm.errors import (
    BootError,
    EmulatorError,
    GuestSetupError,
    KernelPanicError,
    TimedOutError,
    VmError,
)

_PR_SET_PDEATHSIG = 1
_READ_BYTES = 1 << 16
_LIBC = ctypes.CDLL(None)


class Interrupted(BaseException):
    """SIGTERM or SIGHUP arrived; like KeyboardInterrupt it unwinds, so cleanup runs."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def cleanup_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into Interrupted inside the block (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Sinks:
    """The places of the command's output: a file each, or `captured`."""

    stdout: BinaryIO | None = None
    stderr: BinaryIO | None = None
    captured: dict[str, bytearray] = field(
        default_factory=lambda: {port: bytearray() for port in qemu.PORTS}
    )

    def write(self, port: str, data: bytes) -> None:
        file = {"stdout": self.stdout, "stderr": self.stderr}.get(port)
        if file is None:
            self.captured[port] += data
        else:
            file.write(data)
            file.flush()


@dataclass(frozen=True)
class Ended:
    status: int
    boot_s: float


def supervise(boot: qemu.Boot, sinks: Sinks, timeout_s: float | None) -> Ended:
    """Starts QEMU and returns when the guest reports the command's status."""
    started = time.monotonic()
    pipes = {port: os.pipe() for port in qemu.PORTS}
    writers = tuple(writer for _, writer in pipes.values())
    paths = {port: f"/proc/self/fd/{writer}" for port, (_, writer) in pipes.items()}
    with contextlib.ExitStack() as stack:
        for reader, _ in pipes.values():
            stack.callback(os.close, reader)
        try:
            process = _start(qemu.arguments(boot, paths), writers)
        finally:
            for writer in writers:
                os.close(writer)
        stack.callback(_stop, process)
        readers = {port: reader for port, (reader, _) in pipes.items()}
        watch = _Watch(process, boot.console, sinks, started, timeout_s)
        return watch.follow(readers)


def _start(arguments: list[str], writers: tuple[int, ...]) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def die_with_parent() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    # A session of its own: Ctrl-C reaches us alone, and we decide when QEMU ends.
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=writers,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _stop(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    process.wait()
    if process.stderr:
        process.stderr.close()


class _Watch:
    """Follows the ports of one QEMU until it is clear how the run ended."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        console: Path,
        sinks: Sinks,
        started: float,
        timeout_s: float | None,
    ) -> None:
        self._process = process
        self._console = console
        self._sinks = sinks
        self._started = started
        self._timeout_s = timeout_s
        self._boot_s: float | None = None

    def follow(self, readers: dict[str, int]) -> Ended:
        """Forwards until the status comes; raises if anything else happens first."""
        status: int | None = None
        with selectors.DefaultSelector() as selector:
            for port, reader in readers.items():
                selector.register(reader, selectors.EVENT_READ, port)
            while selector.get_map():
                for key, _ in selector.select(self._remaining_s()):
                    data = os.read(key.fd, _READ_BYTES)
                    if not data:
                        selector.unregister(key.fd)
                    self._sinks.write(key.data, data)
                if status is None:
                    status = self._reported_status()
                    if status is not None:
                        # The output came before the status and lies in the pipes.
                        _kill(self._process)
        if status is None or self._boot_s is None:
            raise self._why_it_ended()
        return Ended(status, self._boot_s)

    def _remaining_s(self) -> float | None:
        if self._timeout_s is None:
            return None
        remaining_s = self._started + self._timeout_s - time.monotonic()
        if remaining_s <= 0:
            doing = "booting" if self._boot_s is None else "running the command"
            raise TimedOutError(f"timed out after {self._timeout_s:g} s while {doing}")
        return remaining_s

    def _reported_status(self) -> int | None:
        lines = bytes(self._sinks.captured["control"]).decode(errors="replace").splitlines(True)
        for line in lines:
            word, _, value = line.strip().partition(" ")
            if not line.endswith("\n"):
                continue
            if word == "ready" and self._boot_s is None:
                self._boot_s = time.monotonic() - self._started
            elif word == "error":
                raise GuestSetupError(f"the guest could not be prepared: {value}")
            elif word == "status":
                return int(value)
        return None

    def _why_it_ended(self) -> VmError:
        stderr = self._process.stderr
        said = stderr.read().decode(errors="replace").strip() if stderr else ""
        code = self._process.wait()
        log = self._console.read_text(errors="replace") if self._console.exists() else ""
        for line in log.splitlines():
            if "Kernel panic - not syncing" in line:
                return KernelPanicError(f"the kernel panicked: {line.partition('Kernel')[2]}")
            if "tcplab-boot-error: " in line:
                return BootError(f"the boot failed: {line.partition(': ')[2]}")
        if code < 0:
            return EmulatorError(f"qemu was killed by {signal.Signals(-code).name}")
        if code > 0:
            return EmulatorError(f"qemu failed with status {code}: {said}")
        if self._boot_s is None:
            return BootError("the guest stopped before the command started")
        return EmulatorError("the guest powered off or rebooted before the command ended")
