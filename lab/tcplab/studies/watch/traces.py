"""Recorded flows of campaigns, with what they were and on which path."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tcplab.algorithms import without_prefix
from tcplab.scenario.model import cell_from_json, queue_packets
from tcplab.studies.watch import native
from tcplab.studies.watch.features import GROUP_OF
from tcplab.studies.watch.records import Flow, with_algorithms

YEAH_PACKETS = 80
"""YeAH's threshold: up to so many packets of its own in the queue it is Reno, or, where the queue
holds less than the path, Westwood (Baiocchi et al. 2007, sections 2 and 3)."""

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
    queue_share: float = math.inf
    """The bottleneck's queue in packets over the number of flows."""

    @property
    def group(self) -> str:
        """As the paper groups the algorithm."""
        return GROUP_OF[self.algorithm]

    @property
    def is_twin(self) -> bool:
        """On this path its law is another algorithm's, of another group."""
        return self.algorithm == "yeah" and self.queue_share <= YEAH_PACKETS


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


def _queue_share(cell: dict[str, object]) -> float:
    resolved = cell_from_json(cell["scenario"])  # type: ignore[arg-type]
    streams = sum(flow.streams for flow in resolved.present())
    return queue_packets(resolved.links[0]) / streams


def _name(cc: str) -> str:
    """Without ECN the kernel's DCTCP is Reno, and says so: what was asked for is the name."""
    return "dctcp" if cc == "dctcp-reno" else without_prefix(cc)


def _of_cell(folder: Path, cell: dict[str, object]) -> list[Trace]:
    name = configuration(cell)
    share = _queue_share(cell)
    return [
        Trace(
            _name(cc),
            name,
            str(cell["id"]),
            flow,
            native.features(flow.rounds),
            share,
        )
        for cc, flow in with_algorithms(folder)
        if len(flow.rounds) >= LEAST_ROUNDS and _name(cc) in GROUP_OF
    ]
