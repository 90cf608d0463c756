"""Assigns axes to rows, columns, and separate maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcplab.catalogue import METRICS, metric, price_of

WIDEST = 16
"""More columns than this are hard to read; the longer axis then goes down."""

_PREFERRED = {
    "fairness": "jain",
    "fairness-scale": "jain",
    "rtt-fairness": "jain",
    "choice": "learned_goodput_mbit",
    "fct": "fct_slowdown_p95",
    "path-down": "standstill_s",
    "path-shared": "goodput_mbit.multipath",
    "short": "connections_per_s",
}
_KEY_METRICS = tuple(
    """goodput_mbit learned_goodput_mbit goodput_to_cubic regret jain utilisation rtt_ms_p50
    rtt_ms_p95 queue_delay_ms_p95 retransmit_ratio fct_slowdown_p50 fct_slowdown_p99
    standstill_s connections_per_s failed_connections""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Layout:
    """How a campaign's points are laid out; `columns` is None if metrics go across."""

    rows: str | None
    columns: str | None
    facets: list[str]
    metric: str
    across: list[str]
    """The metrics as columns if there is but one axis."""


def layout(campaign: str, axes: Mapping[str, Sequence[Any]], present: Sequence[str]) -> Layout:
    """Two axes with the same values make a square; transports stand side by side; else the two
    longest are taken.

    `present` are the metrics of at least one point.
    """
    swept = [a for a, values in axes.items() if len(values) > 1] or list(axes)[:1]
    chosen = _preferred(campaign, present)
    across = [m for m in _KEY_METRICS if m in present]
    if len(swept) < 2:
        return Layout(swept[0] if swept else None, None, [], chosen, across)
    rows, columns = _square(swept, axes) or _side_by_side(swept, axes) or _longest(swept, axes)
    facets = [a for a in swept if a not in (rows, columns)]
    return Layout(rows, columns, facets, chosen, across)


def _square(swept: list[str], axes: Mapping[str, Sequence[Any]]) -> tuple[str, str] | None:
    """The first two axes, one with all values of the other, as in a pairwise campaign."""
    for i, a in enumerate(swept):
        for b in swept[i + 1 :]:
            shared = set(axes[a]) & set(axes[b])
            if len(shared) > 1 and shared in (set(axes[a]), set(axes[b])):
                return a, b
    return None


def _side_by_side(swept: list[str], axes: Mapping[str, Sequence[Any]]) -> tuple[str, str] | None:
    """The longest axis down, and the transports across."""
    others = [axis for axis in swept if axis != "transport"]
    if len(others) == len(swept):
        return None
    return max(others, key=lambda axis: len(axes[axis])), "transport"


def _longest(swept: list[str], axes: Mapping[str, Sequence[Any]]) -> tuple[str, str]:
    """In the order of the sweep, unless the table would be too wide."""
    two = sorted(swept, key=lambda a: -len(axes[a]))[:2]
    rows, columns = sorted(two, key=swept.index)
    return (columns, rows) if len(axes[columns]) > WIDEST else (rows, columns)


def _preferred(campaign: str, present: Sequence[str]) -> str:
    wanted = _PREFERRED.get(campaign, "goodput_mbit")
    if wanted in present or not present:
        return wanted
    return next((m for m in _KEY_METRICS if m in present), present[0])


def described(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The page's text about each metric, in the catalogue's order."""
    order = {name: i for i, name in enumerate(METRICS)}
    ranked = sorted(names, key=lambda n: (n.count("."), order.get(n.partition(".")[0], 99), n))
    return {name: _described(name) for name in ranked}


def _described(name: str) -> dict[str, Any]:
    known, group = metric(name), name.partition(".")[2]
    return {
        "title": f"{known.title} of {group}" if group else known.title,
        "unit": known.unit,
        "better": known.better,
        "digits": known.digits,
        "definition": known.definition,
        "price": price_of(name),
    }
