"""Recorded flows of campaigns, with what they were and on which path."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tcplab.algorithms import without_prefix
from tcplab.watch import native
from tcplab.watch.features import GROUP_OF
from tcplab.watch.records import Flow, with_algorithms

LEAST_ROUNDS = 20
"""A flow with fewer tells too little, whatever it was."""


@dataclass(frozen=True)
class Trace:
    """One flow."""

    algorithm: str
    path: str
    """The whole configuration: flows of one never are on both sides of a split."""
    cell: str
    flow: Flow
    features: npt.NDArray[np.int32]

    @property
    def group(self) -> str:
        return GROUP_OF[self.algorithm]


def configuration(cell: dict[str, object]) -> str:
    """What makes two cells the same path: everything but the algorithms and the seed."""
    scenario = cell["scenario"]
    assert isinstance(scenario, dict)
    link = scenario["links"][0]
    flows = [f for f in scenario["flows"] if f["cc"] != "none"]
    streams = sum(f["streams"] for f in flows)
    loss = f", {link['loss_percent']:g} % loss" if link["loss_percent"] else ""
    extra = sorted({f.get("extra_rtt_ms", 0) for f in flows} - {0})
    rtts = " and ".join(f"{link['rtt_ms'] + more:g}" for more in (0, *extra))
    return (
        f"{link['rate_mbit']:g} Mbit/s, {rtts} ms, {link['queue']}{loss}, "
        f"{streams} flow{'s' if streams > 1 else ''}"
    )


def load(folders: Iterable[Path]) -> list[Trace]:
    """All recorded flows of campaigns' directories, of cells that were not rejected."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob("cells/*/cell.json")):
            cell = json.loads(path.read_text())
            if cell["status"] == "ok" and (path.parent / "watch.bin").exists():
                found += _of_cell(path.parent, cell)
    return found


def _name(cc: str) -> str:
    """Without ECN the kernel's DCTCP is Reno, and says so: what was asked for is the name."""
    return "dctcp" if cc == "dctcp-reno" else without_prefix(cc)


def _of_cell(folder: Path, cell: dict[str, object]) -> list[Trace]:
    name = configuration(cell)
    return [
        Trace(
            _name(cc),
            name,
            str(cell["id"]),
            flow,
            native.features(flow.rounds),
        )
        for cc, flow in with_algorithms(folder)
        if len(flow.rounds) >= LEAST_ROUNDS and _name(cc) in GROUP_OF
    ]
