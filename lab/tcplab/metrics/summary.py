"""A campaign's points: each metric's median and interval over the repetitions.

A point is a combination of axis values.  Rejected and failed cells count nowhere but in the
point's tally.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcplab.metrics.cell import cell_metrics
from tcplab.metrics.fairness import harm
from tcplab.metrics.intervals import Median, median_interval
from tcplab.metrics.verdicts import Verdict, verdicts
from tcplab.results.read import Campaign, Cell, Labels, read_campaign

NOBODY = "none"
"""A flow's axis has this value in a solo run without the flow."""


@dataclass
class Point:
    """One combination of axis values, all its repetitions."""

    labels: Labels
    cells: list[Cell]
    found: list[dict[str, Any]]
    """metrics.json of the good cells, in the order of `repetitions`."""
    repetitions: list[int]
    tuner: str | None
    metrics: dict[str, Median] = field(default_factory=dict)

    def tally(self, status: str) -> int:
        return sum(1 for c in self.cells if c.status == status)

    def median(self, name: str) -> float | None:
        known = self.metrics.get(name)
        return None if known is None else known.median

    def set(self, name: str, values: Iterable[float | None]) -> None:
        known = median_interval([v for v in values if v is not None])
        if known is not None:
            self.metrics[name] = known

    def as_json(self) -> dict[str, Any]:
        return {
            "labels": self.labels,
            "cells": [{"id": c.id, "status": c.status, "error": c.error} for c in self.cells],
            "ok": self.tally("ok"),
            "rejected": self.tally("rejected"),
            "failed": self.tally("failed"),
            "repetitions": self.repetitions,
            "tuner": self.tuner,
            "algorithms": _merged(f["algorithms"] for f in self.found),
            "arms": _merged(f["arms"] for f in self.found),
            "metrics": {name: m.as_json() for name, m in self.metrics.items()},
        }


def write_summary(folder: Path | str) -> dict[str, Any]:
    """Computes and stores summary.json of a campaign, broken off or not."""
    campaign = read_campaign(folder)
    found = summarise(campaign)
    temporary = campaign.folder / "summary.json.new"
    temporary.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(campaign.folder / "summary.json")
    return found


def summarise(campaign: Campaign) -> dict[str, Any]:
    """The content of summary.json: points, and the verdicts of the scenario's expectation."""
    found = points(campaign)
    judged: list[Verdict] = verdicts(campaign.scenario.get("expect") or [], found)
    return {
        "format": 1,
        "campaign": campaign.name,
        "points": [p.as_json() for p in found],
        "verdicts": [v.as_json() for v in judged],
    }


def points(campaign: Campaign) -> list[Point]:
    """All points with a complete cell, in the order of the sweep."""
    by_labels: dict[tuple[tuple[str, Any], ...], list[Cell]] = {}
    for cell in campaign.cells():
        by_labels.setdefault(tuple(sorted(cell.labels.items())), []).append(cell)
    found = [_point(cells) for cells in by_labels.values()]
    found.sort(key=lambda p: _position(campaign, p.labels))
    _add_harm(found)
    _add_regret(found)
    return found


def _point(cells: list[Cell]) -> Point:
    cells = sorted(cells, key=lambda c: c.repetition)
    good = [c for c in cells if c.status == "ok"]
    stored = [c.metrics() or cell_metrics(c) for c in good]
    tuner = next((t.name for c in cells if (t := c.tuner()) is not None), None)
    point = Point(cells[0].labels, cells, stored, [c.repetition for c in good], tuner)
    names = {n for m in stored for n in m["values"]}
    for name in sorted(names):
        point.set(name, [m["values"].get(name) for m in stored])
    groups = {g for m in stored for g in m["groups"]}
    for group in sorted(groups):
        each = [m["groups"].get(group, {}) for m in stored]
        for name in sorted({n for m in each for n in m}):
            point.set(f"{name}.{group}", [m.get(name) for m in each])
    return point


def _position(campaign: Campaign, labels: Labels) -> tuple[Any, ...]:
    """Order of the sweep; values missing in the manifest come last, by name."""
    where = []
    for axis, values in campaign.axes.items():
        value = labels.get(axis)
        where.append((values.index(value), "") if value in values else (len(values), str(value)))
    return (*where, str(sorted(labels.items(), key=str)))


def _add_harm(found: list[Point]) -> None:
    """Harm to each flow whose axis has its group's name, if there is a solo run of it."""
    axes = {a for p in found for a in p.labels if any(m.endswith(f".{a}") for m in p.metrics)}
    solo: dict[tuple[Any, ...], dict[str, float | None]] = {}
    for p in found:
        running = [a for a in axes if p.labels.get(a, NOBODY) != NOBODY]
        if len(axes) > 1 and len(running) == 1:
            solo[_key(p.labels, axes, p.labels[running[0]])] = {
                "goodput": p.median("goodput_mbit"),
                "rtt": p.median("rtt_ms_p95"),
            }
    for p in found:
        if NOBODY in p.labels.values():
            continue
        for axis in sorted(axes & p.labels.keys()):
            alone = solo.get(_key(p.labels, axes, p.labels[axis]))
            if alone is not None:
                _set_harm(p, axis, alone)


def _set_harm(point: Point, group: str, alone: dict[str, float | None]) -> None:
    each = [m["groups"].get(group, {}) for m in point.found]
    goodput, rtt = alone["goodput"], alone["rtt"]
    point.set(f"harm_goodput.{group}", [harm(goodput, m.get("goodput_mbit"), True) for m in each])
    point.set(f"harm_rtt.{group}", [harm(rtt, m.get("rtt_ms_p95"), False) for m in each])


def _key(labels: Labels, pair: set[str], algorithm: Any) -> tuple[Any, ...]:
    """The condition without the pair, and the algorithm in question."""
    rest = tuple(sorted((a, v) for a, v in labels.items() if a not in pair))
    return (*rest, algorithm)


def _add_regret(found: list[Point]) -> None:
    """Tuners against static algorithms in the same condition: regret, and goodput to cubic's."""
    axis = _tuner_axis(found)
    if axis is None:
        return

    def condition(p: Point) -> tuple[Any, ...]:
        return tuple(sorted((a, v) for a, v in p.labels.items() if a != axis))

    for p in found:
        peers = [q for q in found if condition(q) == condition(p) and q.tuner is None]
        best = _best(peers, lambda q: q.median("learned_goodput_mbit"))
        cubic = _best(peers, lambda q: _cubic(q, axis))
        values = [m["values"]["learned_goodput_mbit"] for m in p.found]
        if best and p.tuner is not None:
            p.set("regret", [None if v is None else 1 - v / best for v in values])
        if cubic:
            p.set("goodput_to_cubic", [None if v is None else v / cubic for v in values])


def _tuner_axis(found: list[Point]) -> str | None:
    """The axis of the way to choose the algorithm: it has cubic, and otherwise only tuners."""
    if all(p.tuner is None for p in found):
        return None
    for axis in found[0].labels:
        tuned = {p.labels.get(axis) for p in found if p.tuner is not None}
        static = {p.labels.get(axis) for p in found if p.tuner is None}
        if static and tuned and not tuned & static:
            return axis
    return None


def _cubic(point: Point, axis: str) -> float | None:
    """Its goodput, if this point is static cubic: by its axis, or by its sockets' algorithm."""
    ran = _merged(f["algorithms"] for f in point.found)
    is_cubic = point.labels.get(axis) == "cubic" or set(ran) == {"cubic"}
    return point.median("learned_goodput_mbit") if is_cubic else None


def _best(peers: list[Point], value: Callable[[Point], float | None]) -> float | None:
    return max((v for q in peers if (v := value(q)) is not None), default=None)


def _merged(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, n in each.items():
            total[name] = total.get(name, 0) + n
    return dict(sorted(total.items(), key=lambda item: -item[1]))
