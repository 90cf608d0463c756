"""Medians with distribution-free intervals, and a hint at two modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

CONFIDENCE = 0.95
ENOUGH = 6
"""With so many repetitions the range of all values covers the median with 95 %."""


@dataclass(frozen=True)
class Median:
    """A median over repetitions with its interval.

    `coverage` is the probability of the median lying between low and high, for any distribution:
    for fewer than six values even the widest interval stays below 95 %, and `enough` is False.
    """

    median: float
    low: float
    high: float
    coverage: float
    enough: bool
    count: int
    two_modes: bool
    values: list[float]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Median | None:
    """The median and the narrowest symmetric pair of order statistics around it.

    With X(1) ≤ … ≤ X(n), [X(k), X(n+1−k)] covers with probability 1 − 2·P(B ≤ k−1),
    B ~ Binomial(n, ½); k is the largest with at least `confidence`, else 1.  None for no values.
    Conover, Practical Nonparametric Statistics, section 3.2.
    """
    x = sorted(float(v) for v in values)
    n = len(x)
    if n == 0:
        return None
    k = max(int(binom.ppf((1 - confidence) / 2, n, 0.5)), 1)
    while k > 1 and _coverage(k, n) < confidence:
        k -= 1
    while k + 1 <= n // 2 and _coverage(k + 1, n) >= confidence:
        k += 1
    coverage = _coverage(k, n)
    return Median(
        median=float(np.median(x)),
        low=x[k - 1],
        high=x[n - k],
        coverage=round(coverage, 4),
        enough=coverage >= confidence,
        count=n,
        two_modes=two_modes(x),
        values=[float(v) for v in values],
    )


def _coverage(k: int, n: int) -> float:
    """0 for a single value: its probability of covering the median is unknown."""
    return max(1 - 2 * float(binom.cdf(k - 1, n, 0.5)), 0.0)


def two_modes(values: Sequence[float]) -> bool:
    """Whether values fall into two groups: a hint to look at them, not a test.

    At least six values; one gap of more than 0.6 of their range, at least two values on either side
    of it, and the gap more than 5 % of the median.  By chance, 8 % of samples of six uniform values
    show such a gap, and 0.5 % of ten.
    """
    x = np.sort(np.asarray(values, dtype=float))
    if x.size < ENOUGH:
        return False
    gaps = np.diff(x)[1:-1]
    widest = float(gaps.max())
    return bool(widest > 0.6 * (x[-1] - x[0]) and widest > 0.05 * abs(float(np.median(x))))
