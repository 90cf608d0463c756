"""How flows share: Jain's index, max-min shares, harm.  Pure arithmetic on numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


def jain(values: Sequence[float]) -> float | None:
    """Jain's index, (Σx)² / (n·Σx²): 1 if all are equal, 1/n if one has all.

    None for no values, or where all are 0.  Jain, Chiu, Hawe, DEC-TR-301, 1984.
    """
    x = np.asarray(values, dtype=float)
    if x.size == 0 or not x.any():
        return None
    x = x / x.max()  # the index does not depend on scale; squares of huge rates might overflow
    return float(x.sum() ** 2 / (x.size * (x**2).sum()))


def harm(solo: float | None, beside: float | None, more_is_better: bool) -> float | None:
    """Share of a flow's solo performance lost to a competitor: 0 none, 1 all of it.

    Negative where it does better in company.  None where either is unknown or the base is 0.
    Ware, Mukerjee, Seshan, Sherry, HotNets 2019, section 4: (x − y)/x where more is better,
    (y − x)/y where less is, x being the solo run's value and y the one with the competitor.
    """
    if solo is None or beside is None:
        return None
    base = solo if more_is_better else beside
    if base <= 0:
        return None
    return (solo - beside) / base if more_is_better else (beside - solo) / base


def max_min_shares(
    capacity: Mapping[str, float],
    crosses: Sequence[Sequence[str]],
    demand: Sequence[float] | None = None,
) -> list[float]:
    """The max-min fair rate of each flow, by progressive filling.

    `crosses` names the links of each flow; `demand` caps a flow (none by default).  Units are
    those of `capacity`.  A flow over no known link gets its demand.
    Bertsekas, Gallager, Data Networks, section 6.5.2.
    """
    left = dict(capacity)
    want = list(demand) if demand is not None else [float("inf")] * len(crosses)
    rate = [0.0] * len(crosses)
    growing = set(range(len(crosses)))
    while growing:
        steps = [want[i] - rate[i] for i in growing]
        for link, room in left.items():
            users = sum(1 for i in growing if link in crosses[i])
            if users:
                steps.append(room / users)
        step = max(min(steps), 0.0)
        if step == float("inf"):
            for i in growing:
                rate[i] = step
            break
        for i in growing:
            rate[i] += step
        for link in left:
            left[link] -= step * sum(1 for i in growing if link in crosses[i])
        full = {link for link, room in left.items() if room <= 1e-9 * capacity[link]}
        growing = {
            i for i in growing if rate[i] < want[i] * (1 - 1e-12) and not full & set(crosses[i])
        }
    return rate
