"""The interval of `tcpilot report` from its sums, as decision 19 has it: sums of several runs are
added up as those of several hosts are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, log1p, sqrt

LEAST = 20
"""Least pairs for an interval."""
_ALPHA = 0.05
_BEST_AT = 300.0
Sums = dict[str, float]


@dataclass(frozen=True)
class Interval:
    """In nats, or in shares."""

    estimate: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def half_width(count: float) -> float:
    """Half of the width, in standard deviations of a pair."""
    twice = -2 * log(_ALPHA)
    rho2 = (twice + log1p(twice)) / _BEST_AT
    grown = count * rho2 + 1
    return sqrt(2 * grown / (count * count * rho2) * log(sqrt(grown) / _ALPHA))


def merged(all_sums: Iterable[Sums]) -> Sums:
    found: Sums = {}
    for sums in all_sums:
        for key, value in sums.items():
            found[key] = found.get(key, 0.0) + value
    return found


def moments(sums: Sums) -> tuple[float, float]:
    """Mean and standard deviation of a pair, less the covariate's part."""
    n, square, x, xx = sums["count"], sums["square"], sums["covariate"], sums["covariate_square"]
    slope = 0.0
    if n >= LEAST and xx > 0:
        sd = sqrt(max((xx - x * x / n) / (n - 1), 0.0))
        if abs(x / n) <= half_width(n) * sd:
            slope = sums["product"] / xx
    mean = (sums["sum"] - slope * x) / n
    rest = square - 2 * slope * sums["product"] + slope * slope * xx
    fitted = 2 if slope else 1
    return mean, sqrt(max((rest - n * mean * mean) / (n - fitted), 0.0))


def interval(sums: Sums) -> Interval | None:
    """None below LEAST pairs."""
    if sums.get("count", 0) < LEAST:
        return None
    mean, sd = moments(sums)
    half = half_width(sums["count"]) * sd
    return Interval(mean, mean - half, mean + half)
