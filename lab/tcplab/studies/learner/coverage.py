"""How often the learner's 95 % intervals hold the truth, by the age of a path.

A cell of campaign `coverage` with tcpilot ends with an interval for each algorithm: its effect,
relative to the default's.  The truth is the difference of the means of ln utility between the
campaign's static algorithms, over all their connections in that condition.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tcplab.metrics.utility import utilities_mbit
from tcplab.results.read import Cell
from tcplab.studies.learner.judge import AXIS, DEFAULT
from tcplab.studies.watch.judge import wilson

_LEAST = 0.93


@dataclass
class Count:
    """Intervals of paths with so many connections."""

    intervals: int = 0
    held: int = 0

    @property
    def met(self) -> bool:
        return self.held >= _LEAST * self.intervals


def counts(cells: Iterable[Cell]) -> dict[int, Count]:
    """By number of connections.  Intervals whose truth no static algorithm shows do not count."""
    tuned: list[Cell] = []
    static: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in cells:
        if cell.status != "ok":
            continue
        if cell.tuner():
            tuned.append(cell)
        else:
            utilities = utilities_mbit(cell.flows())
            place = (str(cell.labels["condition"]), str(cell.labels[AXIS]))
            static[place] += [math.log(u) for u in utilities if u > 0]
    truths = {place: sum(found) / len(found) for place, found in static.items() if found}
    by_age: dict[int, Count] = defaultdict(Count)
    for cell in tuned:
        condition, age = str(cell.labels["condition"]), int(cell.labels["connections"])
        for low, high, arm in _intervals(cell):
            truth, beside = truths.get((condition, arm)), truths.get((condition, DEFAULT))
            if truth is not None and beside is not None:
                by_age[age].intervals += 1
                by_age[age].held += low <= truth - beside <= high
    return dict(sorted(by_age.items()))


def _intervals(cell: Cell) -> Iterable[tuple[float, float, str]]:
    """In nats, of the algorithms that the path itself has tried."""
    tuner = cell.tuner()
    for row in tuner.table if tuner else []:
        low, high = row.get("effect_low"), row.get("effect_high")
        if low is not None and high is not None and low > -1 and row.get("samples"):
            yield math.log1p(low), math.log1p(high), str(row["arm"])


def markdown(found: dict[int, Count]) -> str:
    lines = ["| connections | intervals | hold the truth | 95 % interval |", "|---|---|---|---|"]
    for age, count in found.items():
        low, high = wilson(count.held, count.intervals)
        share = count.held / count.intervals
        lines.append(f"| {age} | {count.intervals} | {share:.1%} | {low:.1%} to {high:.1%} |")
    return "\n".join(lines)
