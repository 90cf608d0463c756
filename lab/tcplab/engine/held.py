"""tcpilot's congestion controls, registered in this kernel for as long as a campaign runs.

A kernel has each name once, for all namespaces.  If each cell registered its own, the one that
ended first would take them from those beside it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tcplab.algorithms import PREFIX
from tcplab.engine import need
from tcplab.engine.errors import EngineError
from tcplab.engine.parent import die_with_parent
from tcplab.scenario.model import Cell

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_READY = "held by this process"


def objects(names: Sequence[str], binaries: Path) -> list[str]:
    """What `tcpilot cc load` is given: a researcher's own <name>.bpf.o beside the binary goes
    before what the binary brings."""
    own = {name: binaries / f"{name}.bpf.o" for name in names}
    return [str(own[name]) if own[name].exists() else name for name in names]


@contextmanager
def held(cells: Sequence[Cell], tcpilot: Path) -> Iterator[None]:
    """Registers what the cells ask for and nobody else holds.  Raises EngineError if it cannot."""
    there = AVAILABLE.read_text().split()
    wanted = sorted({name for cell in cells for name in need.ours(cell)})
    missing = [name for name in wanted if f"{PREFIX}{name}" not in there]
    if not missing:
        yield
        return
    process = subprocess.Popen(
        [tcpilot, "cc", "load", "--foreground", *objects(missing, tcpilot.parent)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Ctrl-C reaches the campaign alone, which ends its cells first.
        start_new_session=True,
        preexec_fn=die_with_parent(),
    )
    try:
        _await(process)
        yield
    finally:
        process.terminate()
        process.wait()


def _await(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        if line.startswith(_READY):
            return
        said = line.strip()
    raise EngineError(f"tcpilot cc load: {said.removeprefix('tcpilot: ')}")
