"""Samples of one connection against the law of its algorithm: the window's growth between two
losses, and its reduction by a loss.

For algorithms missing in all kernels, and on hosts without the kernel's module.  The laws come from
the RFCs and papers, written again here: nothing is shared with bpf/cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import log
from statistics import median
from typing import Any

import pandas as pd

from tcplab.algorithms import without_prefix

_NEEDED = ("t_s", "cwnd_packets", "srtt_us", "min_rtt_us")
_SETTLE_ROUNDS = 3
"""After a loss the window goes down to the threshold first."""
_ABOVE, _AT = 1.1, 1.03
"""Factors of the threshold: a window above it, and one reduced to it."""


@dataclass(frozen=True)
class State:
    """The inputs of a law: windows in packets, times in seconds."""

    window: float
    rtt: float
    base_rtt: float
    since_cut: float
    before_cut: float
    """The window before the last loss."""
    after_cut: float
    highest_rtt: float

    @property
    def queued(self) -> float:
        """Packets of the window in the queue (Brakmo, Peterson 1995, III.B)."""
        return self.window * (self.rtt - self.base_rtt) / self.rtt


Growth = Callable[[State], float]
"""Packets a round."""
Kept = Callable[[State], float]
"""The part of the window kept after a loss."""


def _cubic(s: State) -> float:
    """RFC 9438, 4.2 and 4.3: the faster of the cubic and the Reno-friendly window, in a round."""
    k = float((s.before_cut * 0.3 / 0.4) ** (1 / 3))
    friendly = s.after_cut + 3 * 0.3 / 1.7 * s.since_cut / s.rtt
    cubic = 0.4 * (s.since_cut - k) ** 3 + s.before_cut
    if friendly > cubic:
        return 3 * 0.3 / 1.7 if friendly < s.before_cut else 1.0
    return 3 * 0.4 * (s.since_cut - k) ** 2 * s.rtt


def _hstcp_b(window: float) -> float:
    """RFC 3649, section 5."""
    return 0.5 if window <= 38 else 0.5 - 0.4 * (log(window / 38) / log(83000 / 38))


def _hstcp(s: State) -> float:
    if s.window <= 38:
        return 1.0
    b = _hstcp_b(s.window)
    return float(s.window**2 * 0.078 / s.window**1.2 * 2 * b / (2 - b))


def _htcp_kept(s: State) -> float:
    """draft-leith-tcp-htcp-06, 3.2."""
    return min(max(s.base_rtt / s.highest_rtt, 0.5), 0.8)


def _htcp(s: State) -> float:
    """3.1 and 3.4."""
    over = max(s.since_cut - 1, 0)
    scale = min(max(s.base_rtt / 0.1, 0.1), 2)
    return 2 * (1 - s.after_cut / s.before_cut) * max((1 + 10 * over + over**2 / 4) * scale, 1)


def _veno(s: State) -> float:
    return 0.5 if s.queued >= 3 else 1.0


def _illinois(s: State) -> float:
    """Liu et al. 2006, equation 3: from 10 at a hundredth of the greatest delay to 0.3."""
    delay, most = s.rtt - s.base_rtt, s.highest_rtt - s.base_rtt
    first = most / 100
    if delay <= first:
        return 10.0
    k = (most - first) * 0.3 / (10 - 0.3)
    return k * 10 / (k + delay - first)


def _one(_: State) -> float:
    return 1.0


def _half(_: State) -> float:
    return 0.5


LAWS: dict[str, tuple[Growth | None, Kept | None]] = {
    "reno": (_one, _half),
    "cubic": (_cubic, lambda _: 0.7),
    "bic": (None, lambda _: 0.8),
    "hstcp": (_hstcp, lambda s: 1 - _hstcp_b(s.window)),
    "htcp": (_htcp, _htcp_kept),
    "hybla": (lambda s: (s.base_rtt / 0.025) ** 2, _half),
    "westwood": (_one, lambda s: s.base_rtt / s.rtt),
    "veno": (_veno, _half),
    "illinois": (_illinois, _half),
    "dctcp": (_one, _half),
    "prague": (_one, _half),
    "lia": (_one, _half),
    "olia": (_one, _half),
    "balia": (_one, _half),
}
"""On one path, without ECN; a full queue causes the losses.  The kept part of bic is the deployed
one; for illinois and veno it is the one at a full queue."""


@dataclass(frozen=True)
class Found:
    """One connection: measured values, and the law's."""

    cuts: int
    kept: float | None
    kept_law: float | None
    grown: float | None
    """The window's growth in packets, over the law's."""
    queued: float
    """Packets in the queue in the median."""


def epochs(samples: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The samples from one loss to the next, the first ones, of slow start, left out."""
    for number, epoch in samples.groupby(_cuts(samples).cumsum()):
        if number:
            yield epoch


def _cuts(samples: pd.DataFrame) -> pd.Series:
    """Whether a loss came: the threshold changed, or the window came down to it a second time,
    since two losses in a row may set the same one."""
    threshold = samples["ssthresh_packets"]
    found = threshold.diff().fillna(0).ne(0).tolist()
    was_down = was_above = False
    for place, (window, bound) in enumerate(zip(samples["cwnd_packets"], threshold, strict=True)):
        is_down = window <= _AT * bound
        if found[place] or (is_down and was_above):
            found[place], was_down, was_above = True, is_down, False
            continue
        was_down = was_down or is_down
        was_above = was_above or (was_down and window >= _ABOVE * bound)
    return pd.Series(found, index=samples.index)


def _named(row: Any) -> dict[str, float]:
    return {name: float(row[name]) for name in (*_NEEDED, "ssthresh_packets", "before")}


def _state(row: Mapping[str, float], cut: Mapping[str, float], highest_rtt: float) -> State:
    return State(
        window=row["cwnd_packets"],
        rtt=row["srtt_us"] / 1e6,
        base_rtt=row["min_rtt_us"] / 1e6,
        since_cut=row["t_s"] - cut["t_s"],
        before_cut=cut["before"],
        after_cut=cut["ssthresh_packets"],
        highest_rtt=highest_rtt,
    )


def of_samples(cc: str, samples: pd.DataFrame) -> Found:
    """Every loss, and the growth of every epoch but the last, unended by a loss, up to its largest
    window: behind it the window comes down, over a round."""
    growth, kept = LAWS.get(without_prefix(cc), (None, None))
    ordered = samples.dropna(subset=list(_NEEDED)).sort_values("t_s")
    ordered = ordered.assign(before=ordered["cwnd_packets"].rolling(5, min_periods=1).max().shift())
    parts, parts_law, gained, gained_law = [], [], 0.0, 0.0
    highest_rtt = float(ordered["srtt_us"].max()) / 1e6
    found = list(epochs(ordered))
    for epoch in found:
        cut = _named(epoch.iloc[0])
        rows = epoch[epoch["t_s"] > cut["t_s"] + _SETTLE_ROUNDS * cut["srtt_us"] / 1e6]
        rows = rows[: int(rows["cwnd_packets"].argmax()) + 1] if len(rows) else rows
        parts.append(cut["ssthresh_packets"] / cut["before"])
        if kept:
            parts_law.append(kept(_state({**cut, "cwnd_packets": cut["before"]}, cut, highest_rtt)))
        if growth and len(rows) > 1 and epoch is not found[-1]:
            gained += rows["cwnd_packets"].iloc[-1] - rows["cwnd_packets"].iloc[0]
            steps = zip(map(_named, rows.to_dict("records")), rows["t_s"].diff()[1:], strict=False)
            gained_law += sum(
                growth(_state(row, cut, highest_rtt)) * step_s / (row["srtt_us"] / 1e6)
                for row, step_s in steps
            )
    queue = ordered["cwnd_packets"] * (1 - ordered["min_rtt_us"] / ordered["srtt_us"])
    return Found(
        len(parts),
        median(parts) if parts else None,
        median(parts_law) if parts_law else None,
        gained / gained_law if gained_law else None,
        float(queue.median()),
    )
