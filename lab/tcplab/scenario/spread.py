"""A value for each of many: a list dealt out in turn, or a range to draw from.

destination_rtt_ms = [20, 40, 80]          the first has 20, the fourth 20 again
destination_rtt_ms = "20 to 200"           drawn evenly
destination_rate_mbit = "2 to 50 log"      drawn evenly by magnitude
"""

from __future__ import annotations

import dataclasses
import math
import random
import re
from typing import Any

Spread = tuple[float, ...] | str
_RANGE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s+to\s+(\d+(?:\.\d+)?)(\s+log)?\s*$")


def spread(*, least: float, most: float) -> Any:
    """A field of a scenario: a number, a list of numbers, or a range, within these limits."""

    def check(value: Any) -> Spread:
        values = list(_ends(value)) if isinstance(value, str) else _numbers(value)
        for number in values:
            if not least <= number <= most:
                raise ValueError(f"{number:g} is impossible: it must be {least:g} to {most:g}")
        if isinstance(value, str) and value.rstrip().endswith("log") and values[0] <= 0:
            raise ValueError(f"{value!r} cannot begin at 0: log draws by magnitude")
        return value if isinstance(value, str) else tuple(values)

    return dataclasses.field(default=None, metadata={"check": check})


def _ends(text: str) -> tuple[float, float]:
    match = _RANGE.match(text)
    if not match or float(match[1]) > float(match[2]):
        raise ValueError(f'{text!r} is no range; write a number, [20, 40], "20 to 80" or "… log"')
    return float(match[1]), float(match[2])


def _numbers(value: Any) -> list[float]:
    given = value if isinstance(value, list) else [value]
    if not given or any(isinstance(n, bool) or not isinstance(n, int | float) for n in given):
        raise ValueError(f'a number, a list of numbers, or "20 to 80" is expected, not {value!r}')
    return [float(number) for number in given]


def values(wanted: Spread, count: int, generator: random.Random) -> list[float]:
    """One value for each of `count`; drawn ones are rounded to three digits, for readers, and so
    equal ones can share an emulated path."""
    if not isinstance(wanted, str):
        return [wanted[i % len(wanted)] for i in range(count)]
    low, high = _ends(wanted)
    if wanted.rstrip().endswith("log"):
        low, high = math.log(low), math.log(high)
        return [_rounded(math.exp(generator.uniform(low, high))) for _ in range(count)]
    return [_rounded(generator.uniform(low, high)) for _ in range(count)]


def wholes(wanted: Spread, count: int, generator: random.Random) -> list[int]:
    """The same in whole numbers, each end of a range as likely as the numbers between."""
    if not isinstance(wanted, str):
        return [round(value) for value in values(wanted, count, generator)]
    low, high = _ends(wanted)
    if wanted.rstrip().endswith("log"):
        return [round(value) for value in values(wanted, count, generator)]
    return [generator.randint(round(low), round(high)) for _ in range(count)]


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
