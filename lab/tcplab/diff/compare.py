"""Medians of two campaigns differing by more than a tolerance: a pure function of summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tcplab.catalogue import metric, price_of

DEFAULT_TOLERANCE = 0.02
"""Relative: two runs of the same campaign in virtual time differ by less."""

DEFAULT_METRICS = (
    "goodput_mbit",
    "learned_goodput_mbit",
    "jain",
    "utilisation",
    "rtt_ms_p50",
    "retransmit_ratio",
    "fct_slowdown_p50",
    "connections_per_s",
)

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One metric of one point in both campaigns."""

    labels: dict[str, Any]
    metric: str
    a: float | None
    b: float | None
    difference: float | None
    """b − a, in the metric's unit."""
    relative: float | None
    """(b − a)/a; None if a is 0."""
    beyond: bool
    """Farther apart than tolerance and floor, or known to one campaign only."""
    apart: bool | None
    """Whether the two intervals have nothing in common; None if either has under 95 %."""
    retransmitted: tuple[float | None, float | None] | None = None
    """For a goodput: the share of retransmitted segments, in a and in b."""


@dataclass(frozen=True)
class Diff:
    """All rows, and the points of only one campaign."""

    tolerance: float
    rows: list[Row]
    only_a: list[dict[str, Any]]
    only_b: list[dict[str, Any]]

    @property
    def beyond(self) -> list[Row]:
        return [row for row in self.rows if row.beyond]

    @property
    def same(self) -> bool:
        """Same points, all within tolerance."""
        return not (self.beyond or self.only_a or self.only_b)

    def as_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


def compare(
    a: Summary,
    b: Summary,
    tolerance: float = DEFAULT_TOLERANCE,
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> Diff:
    """Compares the content of two summary.json, by the labels of their points.

    A metric stands for its flow groups too: `goodput_mbit` compares `goodput_mbit.first`.
    """
    in_a, in_b = _by_labels(a), _by_labels(b)
    rows = [
        _row(in_a[key], in_b[key], name, tolerance)
        for key in in_a
        if key in in_b
        for name in _names(in_a[key], in_b[key], metrics)
    ]
    return Diff(
        tolerance=tolerance,
        rows=rows,
        only_a=[p["labels"] for k, p in in_a.items() if k not in in_b],
        only_b=[p["labels"] for k, p in in_b.items() if k not in in_a],
    )


def _by_labels(summary: Summary) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Points by their labels; of axes with one value in all points too."""
    return {tuple(sorted(p["labels"].items())): p for p in summary["points"]}


def _names(a: Mapping[str, Any], b: Mapping[str, Any], wanted: Sequence[str]) -> list[str]:
    """In the order wanted, each followed by its groups."""
    there = sorted(a["metrics"].keys() | b["metrics"].keys())
    return [n for w in wanted for n in there if n == w or n.startswith(f"{w}.")]


def _row(a: Mapping[str, Any], b: Mapping[str, Any], name: str, tolerance: float) -> Row:
    labels, in_a, in_b = dict(a["labels"]), a["metrics"].get(name), b["metrics"].get(name)
    price = _prices(a, b, name)
    if in_a is None or in_b is None:
        value_a = None if in_a is None else in_a["median"]
        value_b = None if in_b is None else in_b["median"]
        return Row(labels, name, value_a, value_b, None, None, True, None, price)
    x, y = float(in_a["median"]), float(in_b["median"])
    far = abs(y - x) > max(tolerance * abs(x), metric(name).floor)
    apart = None
    if in_a["enough"] and in_b["enough"]:
        apart = in_a["high"] < in_b["low"] or in_b["high"] < in_a["low"]
    return Row(labels, name, x, y, y - x, (y - x) / x if x else None, far, apart, price)


def _prices(
    a: Mapping[str, Any], b: Mapping[str, Any], name: str
) -> tuple[float | None, float | None] | None:
    price = price_of(name)
    if price is None:
        return None
    known = [p["metrics"].get(price) for p in (a, b)]
    return known[0] and known[0]["median"], known[1] and known[1]["median"]
