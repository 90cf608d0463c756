"""Colours of values, and marks of a logarithmic axis: arithmetic of the page, testable without a
browser."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tcplab.catalogue import Metric

_FLOORS = 10
"""The whole ramp spans at least so many floors of a metric, so a small difference looks small."""
_BY_MAGNITUDE = 30
"""A spread beyond this factor is coloured logarithmically."""
_FEWEST_TICKS, _MOST_TICKS = 4, 12


def scale(values: Iterable[float | None], metric: Metric) -> dict[str, Any]:
    """The ends of the ramp, and the least and the most of the values.

    `alike`: all differ by less than the metric's floor, or there are none, and have one colour.
    """
    known = [v for v in values if v is not None and math.isfinite(v)]
    least, most = (min(known), max(known)) if known else (0.0, 1.0)
    by_magnitude = least > 0 and most / least > _BY_MAGNITUDE
    low, high = least, most
    if metric.unit == "" and metric.better == "more" and most <= 1.05 and least >= 0.5:
        low, high = min(low, 0.5), max(high, 1.0)  # shares: their own ends
    elif not by_magnitude and high - low < _FLOORS * metric.floor:
        middle, half = (low + high) / 2, _FLOORS * metric.floor / 2
        low, high = middle - half, middle + half
    return {
        "low": low,
        "high": high,
        "least": least,
        "most": most,
        "by_magnitude": by_magnitude,
        # 21.4 − 21.2 is a little less than 0.2.
        "alike": most - least <= metric.floor * (1 + 1e-9) or not known,
        "floor": metric.floor,
    }


def ticks(low: float, high: float) -> list[float]:
    """Marks of a logarithmic axis from `low` to `high`, both above 0: powers of ten with their
    double and fivefold, fewer if those are many; round numbers in equal steps if they are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1,)):
        found = [n * 10.0**k for k in decades for n in digits]
        inside = [v for v in found if low <= v <= high]
        if _FEWEST_TICKS <= len(inside) <= _MOST_TICKS:
            return inside
    return inside if len(inside) > _MOST_TICKS else _even(low, high)


def _even(low: float, high: float) -> list[float]:
    """Four to ten round numbers in equal steps."""
    raw = (high - low) / _FEWEST_TICKS * (1 + 1e-9)
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 0.0
    step = max((n * power for n in (1, 2, 5, 10) if n * power <= raw), default=0.0)
    if not step:
        return [low]
    # A mark at an end is not lost to rounding.
    first = math.ceil(low / step - 1e-6)
    count = math.floor(high / step + 1e-6) - first + 1
    return [float(f"{(first + i) * step:.10g}") for i in range(count)]
