"""The open readings of P4air's rules, all of them replayed on the same recordings.

This file lists the points left open by the slides (`OPEN`).  A reading is one choice for each.  All
are replayed at once: every state is an array with an element per reading.  None of them is P4air,
whose code is not published; the one whose recall is nearest to the published figures is "the
nearest reading", and no more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcplab.studies.watch.features import GROUP_OF, GROUPS
from tcplab.studies.watch.records import Table
from tcplab.studies.watch.traces import Trace

OPEN = {
    "a loss ends a run of rises": (False, True),
    "a loss ends the count of growths": (True, False),
    "a rise counts unless the rate fell": ("by an eighth", "at all", "never"),
    "growth is to": ("the interval before", "the most so far"),
    "growths must follow one another": (False, True),
    "packets": ("with dropped ones", "without them"),
    "slow start ends at the share of the path": (False, True),
    "the queue rose": ("by 1 %", "by anything"),
    "Westwood is": ("loss", "delay"),
    "DCTCP is": ("loss", "loss-delay"),
}
"""The open points, with today's reading (bpf/core/watch/p4air.h) first."""

PUBLISHED = {
    **dict.fromkeys(("bbr", "vegas", "lola", "highspeed", "htcp", "cubic"), 0.995),
    **{"bic": 0.80, "reno": 0.30, "hybla": 0.0},
    **dict.fromkeys(("westwood", "dctcp", "veno", "illinois", "yeah"), 0.99),
}
"""Recall at its operating point.  The last five are not given one by one: a mean of 86 % over the
fourteen leaves 99 % for each."""

MLD, MPL, MM, MOVES = 4, 12, 4, 4
"""Rises before delay-based is loss-delay, and before that is loss; growths before a flow is
model-based; reclassifications at most."""
ANT_PACKETS = 4
_UNKNOWN, _ANT, _MOUSE, _LOSS, _DELAY, _BOTH, _MODEL = range(7)

Array = npt.NDArray[Any]


def readings() -> list[dict[str, Any]]:
    """Every combination; today's reading is the first."""
    return [dict(zip(OPEN, one, strict=True)) for one in itertools.product(*OPEN.values())]


class _Flows:
    """The states of one flow under all readings."""

    def __init__(self, all_of_them: Sequence[dict[str, Any]]) -> None:
        def of(what: str, value: Any) -> Array:
            return np.array([one[what] == value for one in all_of_them])

        n = len(all_of_them)
        self.loss_ends_rises = of("a loss ends a run of rises", True)
        self.loss_ends_growths = of("a loss ends the count of growths", True)
        self.eighth = of("a rise counts unless the rate fell", "by an eighth")
        self.any_fall = of("a rise counts unless the rate fell", "at all")
        self.to_most = of("growth is to", "the most so far")
        self.in_a_row = of("growths must follow one another", True)
        self.without = of("packets", "without them")
        self.at_share = of("slow start ends at the share of the path", True)
        self.percent = of("the queue rose", "by 1 %")
        self.group = np.full(n, _UNKNOWN)
        self.rises, self.growths, self.moves = (np.zeros(n, dtype=int) for _ in range(3))
        self.before, self.most = np.zeros(n), np.zeros(n)
        self.queue = 0.0

    def interval(self, packets: float, dropped: float, queue_us: float, share: float) -> None:
        count = np.where(self.without, max(packets - dropped, 0), packets)
        is_new = self.group <= _ANT
        is_mouse = self.group == _MOUSE
        is_long = self.group > _MOUSE
        self.group[is_new] = np.where(count > ANT_PACKETS, _MOUSE, _ANT)[is_new]
        over = (dropped > 0) | (count <= self.before)
        over |= self.at_share & (share > 0) & (count >= share)
        self.group[is_mouse & over] = _DELAY
        self._count(is_long, count, dropped, queue_us)
        self._decide(is_long)
        self.before = count.astype(float)
        self.most = np.maximum(self.most, count)
        self.queue = queue_us

    def _count(self, on: Array, count: Array, dropped: float, queue_us: float) -> None:
        rose = np.where(self.percent, queue_us * 100 >= self.queue * 101, True)
        rose &= queue_us > self.queue
        kept = np.where(self.eighth, count * 9 >= self.before * 8, True)
        kept &= np.where(self.any_fall, count >= self.before, True)
        counts = rose & kept & ~(self.loss_ends_rises & (dropped > 0))
        self.rises = np.where(on, np.where(counts, self.rises + 1, 0), self.rises)
        base = np.where(self.to_most, self.most, self.before)
        grew = (base > 0) & (count * 8 >= base * 9)
        ends = (dropped > 0) & self.loss_ends_growths
        growths = np.where(grew, self.growths + 1, np.where(self.in_a_row, 0, self.growths))
        self.growths = np.where(on, np.where(ends, 0, growths), self.growths)

    def _decide(self, on: Array) -> None:
        model = on & (self.group != _MODEL) & (self.growths >= MM)
        both = on & ~model & (self.group == _DELAY) & (self.rises >= MLD)
        loss = on & ~model & (self.group == _BOTH) & ~both & (self.rises >= MPL)
        for moved, group in ((model, _MODEL), (both, _BOTH), (loss, _LOSS)):
            moved &= self.moves < MOVES
            self.group[moved] = group
            self.moves[moved] += 1
            self.rises[moved] = self.growths[moved] = 0


def replay(intervals: Table, all_of_them: Sequence[dict[str, Any]], share: float) -> Array:
    """The group of a flow before its intervals and after each of them, by each reading."""
    flows = _Flows(all_of_them)
    groups = [flows.group.copy()]
    for row in intervals:
        dropped, queue_us = float(row["dropped_packets"]), float(row["max_queue_us"])
        flows.interval(float(row["packets"]), dropped, queue_us, share)
        groups.append(flows.group.copy())
    return np.stack(groups)


@dataclass(frozen=True)
class Recall:
    """Recall of each reading, by algorithm."""

    readings: list[dict[str, Any]]
    names: list[str]
    recall: Array
    """A row per reading, a column per name."""
    flows: list[int]

    def distance(self) -> Array:
        """The mean distance from the published recall."""
        wanted = np.array([PUBLISHED[name] for name in self.names])
        found: Array = np.abs(self.recall - wanted).mean(axis=1)
        return found


def _wanted(name: str, one: dict[str, Any]) -> int:
    group = {"westwood": one["Westwood is"], "dctcp": one["DCTCP is"]}.get(name, GROUP_OF[name])
    return GROUPS.index(group)


def _share(trace: Trace) -> float:
    """The path's packets per handshake round trip: one flow has all of it."""
    intervals = trace.flow.intervals
    if not len(intervals):
        return 0.0
    segment = max(int(trace.flow.rounds[-1]["segment_bytes"]), 1)
    return float(np.median(intervals["link_rate"])) * int(intervals[-1]["rtt_us"]) / 1e6 / segment


def recall(traces: Sequence[Trace], each_interval: bool = False) -> Recall:
    """All readings on these flows, meant to be from the operating point: right at their end, or the
    share of their intervals.
    """
    every = readings()
    names = [name for name in PUBLISHED if any(t.algorithm == name for t in traces)]
    columns, flows = [], []
    for name in names:
        mine = [t for t in traces if t.algorithm == name]
        wanted = np.array([_wanted(name, one) for one in every])
        judged = slice(0, None) if each_interval else slice(-1, None)
        groups = [replay(t.flow.intervals, every, _share(t))[judged] for t in mine]
        columns.append(np.mean([np.mean(one == wanted, axis=0) for one in groups], axis=0))
        flows.append(len(mine))
    return Recall(every, names, np.stack(columns, axis=1), flows)


def text(found: Recall) -> str:
    """Markdown: today's reading, the nearest, and the best of all readings per algorithm."""
    distance = found.distance()
    nearest = int(np.argmin(distance))
    lines = [
        "| algorithm | flows | published | today's reading | nearest reading "
        "| least and most of all |",
        "|---|---|---|---|---|---|",
    ]
    for i, name in enumerate(found.names):
        column = found.recall[:, i]
        lines.append(
            f"| {name} | {found.flows[i]} | {PUBLISHED[name]:.0%} | {column[0]:.0%} "
            f"| {column[nearest]:.0%} | {column.min():.0%} to {column.max():.0%} |"
        )
    means = found.recall.mean(axis=1)
    lines.append(
        f"| mean | | {np.mean([PUBLISHED[n] for n in found.names]):.0%} | {means[0]:.0%} "
        f"| {means[nearest]:.0%} | {means.min():.0%} to {means.max():.0%} |"
    )
    lines.append(
        f"| mean distance | | | {distance[0]:.2f} | {distance[nearest]:.2f} "
        f"| {distance.min():.2f} to {distance.max():.2f} |"
    )
    chosen = "; ".join(f"{what}: {value}" for what, value in found.readings[nearest].items())
    return "\n".join(lines) + f"\n\nThe nearest of {len(found.readings)} readings: {chosen}.\n"
