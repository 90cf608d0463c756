"""The kernel's congestion controls and tcpilot's of the same names: records as tables.

Each pair and condition has the means over the repetitions, and our difference from the kernel's in
percent, with its 95 % interval by Welch's test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_ind

from tcplab.algorithms import OWN_NAMES, is_own, without_prefix
from tcplab.catalogue import percent
from tcplab.studies import page as pages
from tcplab.studies.cells import Record

BOUNDS = {"goodput_mbit": 3.0, "cwnd_packets": 5.0, "rtt_ms_mean": 5.0}
"""Allowed differences, in percent."""
PRICE = "retransmit_ratio"
COST = "ack_ns"

Values = Mapping[str, float]


@dataclass(frozen=True)
class Pair:
    """One algorithm under one condition: the repetitions of both."""

    algorithm: str
    condition: str
    theirs: Sequence[Values]
    ours: Sequence[Values]

    def figures(self, metric: str) -> tuple[list[float], list[float]]:
        """The kernel's, and ours."""
        theirs, ours = (
            [run[metric] for run in runs if metric in run] for runs in (self.theirs, self.ours)
        )
        return theirs, ours


@dataclass(frozen=True)
class Difference:
    """The difference of two means, in percent of the first; without an interval if a side has a
    single run."""

    percent: float
    low: float | None
    high: float | None

    def exceeds(self, bound: float) -> bool:
        """The mean is outside of the bound, and chance does not explain it."""
        by_chance = self.low is not None and self.high is not None and self.low <= 0 <= self.high
        return abs(self.percent) > bound and not by_chance

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.percent:+.1f} %"
        return f"{self.percent:+.1f} %: {self.low:+.0f} to {self.high:+.0f}"


def difference(theirs: Sequence[float], ours: Sequence[float]) -> Difference:
    """By Welch's test."""
    whole = float(np.mean(theirs)) / 100
    if not whole:
        return Difference(0.0 if not np.mean(ours) else float("inf"), None, None)
    middle = float(np.mean(ours)) / whole - 100
    if min(len(theirs), len(ours)) < 2:
        return Difference(middle, None, None)
    if np.ptp(theirs) == 0 and np.ptp(ours) == 0:
        return Difference(middle, middle, middle)
    interval = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    return Difference(middle, float(interval.low) / whole, float(interval.high) / whole)


def pairs(records: Iterable[Record]) -> list[Pair]:
    """Complete pairs, in the order of the records."""
    runs: dict[tuple[str, str], tuple[list[Values], list[Values]]] = {}
    for record in records:
        name = str(record["labels"]["cc"])
        bare = without_prefix(name)
        key = (OWN_NAMES.get(bare, bare), str(record["labels"]["condition"]))
        runs.setdefault(key, ([], []))[is_own(name)].append(record["values"])
    return [Pair(*key, *both) for key, both in runs.items() if all(both)]


def _by_algorithm(found: Iterable[Pair]) -> list[Pair]:
    return sorted(found, key=lambda pair: pair.algorithm)


def overview(found: Sequence[Pair]) -> str:
    """A row for each algorithm: how much goodput, window and RTT differ under each condition, in
    percent; an asterisk as in the table.  Below it the number of asterisks."""
    conditions = list(dict.fromkeys(pair.condition for pair in found))
    by_key = {(pair.algorithm, pair.condition): pair for pair in found}
    rows = []
    for algorithm in sorted({pair.algorithm for pair in found}):
        mine = [by_key.get((algorithm, condition)) for condition in conditions]
        rows.append([algorithm, *(_short(pair) if pair else pages.NONE for pair in mine)])
    count = f"{outside(found)} of {len(BOUNDS) * len(found)} figures are outside their bounds."
    return f"{pages.rows(['algorithm', *conditions], rows)}\n{count}\n"


def _short(pair: Pair) -> str:
    words = []
    for metric, bound in BOUNDS.items():
        apart = difference(*pair.figures(metric))
        words.append(f"{apart.percent:+.1f}{'*' * apart.exceeds(bound)}")
    return " ".join(words)


def table(found: Sequence[Pair]) -> str:
    """Every pair; an asterisk marks significant values outside their bound."""
    head = ["algorithm", "condition", "runs", "goodput, Mbit/s", "window, packets", "RTT, ms"]
    rows = []
    for pair in _by_algorithm(found):
        row = [pair.algorithm, pair.condition, f"{len(pair.theirs)}, {len(pair.ours)}"]
        for metric, bound in BOUNDS.items():
            theirs, ours = pair.figures(metric)
            apart = difference(theirs, ours)
            mark = " *" if apart.exceeds(bound) else ""
            row.append(f"{np.mean(theirs):.2f} → {np.mean(ours):.2f} ({apart}{mark})")
        price = (percent(float(np.mean(values))) for values in pair.figures(PRICE))
        rows.append([*row, " → ".join(price)])
    return pages.rows([*head, "sent again"], rows)


def costs(found: Sequence[Pair]) -> str:
    """The kernel's time on an acknowledgement, under the conditions that measure it."""
    head = ["algorithm", "condition", "the kernel's, ns", "ours, ns", "ours over the kernel's"]
    rows = []
    for pair in _by_algorithm(found):
        theirs, ours = pair.figures(COST)
        if theirs and ours:
            means = float(np.mean(theirs)), float(np.mean(ours))
            words = [f"{mean:.0f}" for mean in means]
            rows.append([pair.algorithm, pair.condition, *words, f"{means[1] / means[0]:.2f}"])
    return pages.rows(head, rows)


def outside(found: Sequence[Pair]) -> int:
    """Figures outside of their bounds, and not by chance."""
    return sum(
        difference(*pair.figures(metric)).exceeds(bound)
        for pair in found
        for metric, bound in BOUNDS.items()
    )
