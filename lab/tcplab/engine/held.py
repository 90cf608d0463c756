"""tcpilot's congestion controls, registered in this kernel for as long as a campaign runs.

A kernel has each name once, for all namespaces.  If each cell registered its own, the first to end
would take them from the others.  Campaigns share a lock for the same reason: the campaign with the
registration removes it when no other runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tcplab.algorithms import PREFIX
from tcplab.engine import need
from tcplab.engine.errors import EngineError
from tcplab.engine.parent import die_with_parent
from tcplab.scenario.model import Cell

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
LOCK = Path("/run/tcplab-algorithms.lock")
"""Every campaign using them on this host holds it, shared."""
_READY = "held by this process"
_TAKEN = "is loaded already"
_TRIES, _PAUSE_S = 10, 1.0


def objects(names: Sequence[str], binaries: Path) -> list[str]:
    """The words for `tcpilot cc load`: a researcher's own <name>.bpf.o next to the binary has
    priority over the built-in one."""
    own = {name: binaries / f"{name}.bpf.o" for name in names}
    return [str(own[name]) if own[name].exists() else name for name in names]


@contextmanager
def held(cells: Sequence[Cell], tcpilot: Path) -> Iterator[None]:
    """Registers the cells' algorithms, unless somebody else holds them.

    Raises EngineError if it cannot."""
    wanted = sorted({name for cell in cells for name in need.ours(cell)})
    if not wanted:
        yield
        return
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        process = _loaded(wanted, tcpilot)
        try:
            yield
        finally:
            if process:
                try:
                    _wait_for_others(lock)
                finally:
                    process.terminate()
                    process.wait()


def _wait_for_others(lock: IO[str]) -> None:
    """Until no other campaign uses them.  The lock is let go first: the others wait so, too."""
    fcntl.flock(lock, fcntl.LOCK_UN)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    text = "waiting for another campaign, which uses this one's congestion controls"
    print(f"tcplab: {text}; Ctrl-C takes them from it", file=sys.stderr, flush=True)
    fcntl.flock(lock, fcntl.LOCK_EX)


def _loaded(wanted: Sequence[str], tcpilot: Path) -> subprocess.Popen[str] | None:
    """The process holding the missing ones; None if nothing is missing."""
    for tries_left in reversed(range(_TRIES)):
        there = AVAILABLE.read_text().split()
        missing = [name for name in wanted if f"{PREFIX}{name}" not in there]
        if not missing:
            return None
        process = _start(missing, tcpilot)
        if (said := _refusal(process)) is None:
            return process
        process.wait()
        # Another campaign's cell may have begun, or ended, at this moment.
        if not tries_left or _TAKEN not in said:
            raise EngineError(f"tcpilot cc load: {said.removeprefix('tcpilot: ')}")
        time.sleep(_PAUSE_S)
    return None


def _start(names: Sequence[str], tcpilot: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [tcpilot, "cc", "load", "--foreground", *objects(names, tcpilot.parent)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Ctrl-C reaches the campaign alone, so it can end its cells first.
        start_new_session=True,
        preexec_fn=die_with_parent(),
    )


def _refusal(process: subprocess.Popen[str]) -> str | None:
    """Its last words if it ended; None as soon as it holds them."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        if line.startswith(_READY):
            return None
        said = line.strip()
    return said
