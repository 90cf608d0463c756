"""Programs and libraries for cells, on any engine."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tcplab import topology
from tcplab.engine import acks, held, limits, need, relay, web
from tcplab.engine.errors import EngineError
from tcplab.engine.job import Settings
from tcplab.scenario.model import Cell
from tcplab.vm.cache import sha256_of

_LIBBPF = "libbpf.so.1"
_BUILD = "run cargo build --release in tcpilot's source, or name its folder by --binaries"


def missing(cells: Sequence[Cell], settings: Settings) -> list[str]:
    """A sentence for each missing one, with the remedy."""
    found = []
    for program in wanted(cells, settings):
        if not program.is_file():
            found.append(f"{program} is missing; {_BUILD}")
        elif settings.engine == "vm" and program.is_relative_to("/tmp"):
            found.append(f"{program}: the machine has a /tmp of its own; put it elsewhere")
    if any(flow.quic for cell in cells for flow in cell.present()):
        found += _no_quic(settings.flowgen)
    try:
        found += web.missing(cells)
    except EngineError as problem:
        found += problem.problems
    return found + _uncompiled(cells)


def wanted(cells: Sequence[Cell], settings: Settings) -> list[Path]:
    """The binaries of this repository for these cells."""
    found = [Path(settings.flowgen)]
    if any(need.needs_tcpilot(cell) for cell in cells):
        found.append(Path(settings.tcpilot))
    if any(link.trace for cell in cells for link in cell.links) or any(
        cell.delays == topology.RELAY for cell in cells
    ):
        found.append(relay.program(settings.flowgen))
    return found


def hashes(cells: Sequence[Cell], settings: Settings) -> dict[str, dict[str, str]]:
    """SHA-256 of the binaries and BPF objects of these cells, by path."""
    own = {name for cell in cells for name in need.ours(cell)}
    words = held.objects(sorted(own), Path(settings.tcpilot).parent)
    theirs = [Path(word) for word in words if "/" in word]
    return {
        "programs": {str(path): sha256_of(path) for path in wanted(cells, settings)},
        "bpf_objects": {str(path): sha256_of(path) for path in [*objects(cells), *theirs]},
    }


def objects(cells: Sequence[Cell]) -> list[Path]:
    """The laboratory's own BPF objects for these cells.  Raises EngineError."""
    found = [acks.compiled()] if any(map(acks.is_wanted, cells)) else []
    tuners = dict.fromkeys(cell.tuner for cell in cells if cell.tuner.name == "limit")
    return found + [limits.compiled(tuner) for tuner in tuners]


def _uncompiled(cells: Sequence[Cell]) -> list[str]:
    if not any(acks.is_wanted(cell) or cell.tuner.name == "limit" for cell in cells):
        return []
    found: list[str] = []
    try:
        objects(cells)
    except EngineError as problem:
        found += problem.problems
    try:
        ctypes.CDLL(_LIBBPF)
    except OSError:
        found.append(f"{_LIBBPF} is missing, the loader of BPF programs; apt-get install libbpf1")
    return found


@cache
def _no_quic(flowgen: str) -> list[str]:
    """flowgen refuses these words with or without QUIC, and says why."""
    words = [flowgen, "bulk", "--to", "127.0.0.1:9", "--transport", "quic", "--reverse"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []  # A missing program has its own sentence.
    if "--features mpquic" not in answer.stdout + answer.stderr:
        return []
    remedy = "cargo build --release -p flowgen --features mpquic"
    return [f"{flowgen} was built without QUIC; run: {remedy}"]
