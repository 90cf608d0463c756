"""Our points and a published table: the pairs, their rank correlation, the widest gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from scipy.stats import spearmanr

from tcplab.algorithms import is_own
from tcplab.published import Figure, Published, canonical, names, of_campaign
from tcplab.results.read import Campaign

Points = Sequence[Mapping[str, Any]]
"""`points` of summary.json."""

WIDEST = 8
"""Number of listed pairs with the largest differences."""


@dataclass(frozen=True)
class Pair:
    """One published number and ours; None if we have none."""

    what: str
    metric: str
    where: dict[str, Any]
    over: dict[str, Any] | None
    """Labels of the ratio's denominator."""
    published: float
    text: str
    """As published."""
    ours: float | None
    low: float | None
    high: float | None

    @property
    def gap(self) -> float | None:
        """Ours minus theirs."""
        return None if self.ours is None else self.ours - self.published


@dataclass(frozen=True)
class Comparison:
    """A published table and one condition of a campaign."""

    table: Published
    condition: dict[str, Any]
    """Labels of ours missing in the table, such as the qdisc."""
    pairs: list[Pair]
    rank_correlation: float | None
    """Spearman's rho over the distinct pairs; None for fewer than three, if all are equal, or
    where the figures are of different kinds."""
    compared: int
    """Number of our values behind the correlation."""

    def widest(self, count: int = WIDEST) -> list[Pair]:
        """The largest differences first; a symmetric pair once."""
        known = [p for p in distinct(self.table, self.pairs) if p.gap is not None]
        return sorted(known, key=lambda p: -abs(p.gap or 0.0))[:count]

    def as_json(self) -> dict[str, Any]:
        return {
            "table": self.table.name,
            "condition": self.condition,
            "rank_correlation": self.rank_correlation,
            "compared": self.compared,
            "widest": [asdict(p) | {"gap": p.gap} for p in self.widest()],
        }


def comparisons(campaign: Campaign, points: Points) -> list[Comparison]:
    """With every table named by the scenario, or else with those of a campaign of its name."""
    wanted: list[str] = campaign.scenario.get("published") or []
    known = [name for name in wanted if name in names()]
    return [c for table in of_campaign(campaign.name, known) for c in compare(table, points)]


def compare(table: Published, points: Points) -> list[Comparison]:
    """One comparison for each condition of ours within the table."""
    axes = {a for f in table.figures for a in (*f.where, *(f.over or {}))}
    conditions: dict[tuple[tuple[str, Any], ...], list[Mapping[str, Any]]] = {}
    for point in points:
        if _speaks_of(table, point["labels"]):
            rest = tuple(sorted((a, v) for a, v in point["labels"].items() if a not in axes))
            conditions.setdefault(rest, []).append(point)
    found = [_comparison(table, dict(c), ours) for c, ours in conditions.items()]
    return [c for c in found if c.compared]


def _speaks_of(table: Published, labels: Mapping[str, Any]) -> bool:
    return all(
        canonical(labels[axis]) in map(canonical, values)
        for axis, values in table.where.items()
        if axis in labels
    )


def _comparison(table: Published, condition: dict[str, Any], points: Points) -> Comparison:
    kernels_last = sorted(points, key=lambda p: not any(map(is_own, p["labels"].values())))
    by_labels = {_key(p["labels"], condition): p for p in kernels_last}
    pairs = [_pair(table, figure, by_labels) for figure in table.figures]
    known = [p for p in distinct(table, pairs) if p.ours is not None]
    rho = _spearman(known) if table.form != "figures" else None
    return Comparison(table, condition, pairs, rho, len(known))


def distinct(table: Published, pairs: Sequence[Pair]) -> list[Pair]:
    """A symmetric table's pairs once, whichever way round."""
    if not table.symmetric:
        return list(pairs)
    once: dict[frozenset[Any], Pair] = {}
    for pair in pairs:
        once.setdefault(frozenset(pair.where.values()), pair)
    return list(once.values())


def _pair(table: Published, figure: Figure, by_labels: dict[Any, Mapping[str, Any]]) -> Pair:
    found = _look_up(table, figure.where, by_labels, figure.metric)
    ours, low, high = found or (None, None, None)
    if figure.over is not None:
        base = _look_up(table, {**figure.where, **figure.over}, by_labels, figure.metric)
        ours = ours / base[0] if ours is not None and base and base[0] else None
        low = high = None  # a ratio of medians has another interval than its parts
    return Pair(
        what=figure.what,
        metric=figure.metric,
        where=figure.where,
        over=figure.over,
        published=figure.value,
        text=figure.text,
        ours=ours,
        low=low,
        high=high,
    )


def _look_up(
    table: Published, where: Mapping[str, Any], by_labels: dict[Any, Mapping[str, Any]], name: str
) -> tuple[float, float | None, float | None] | None:
    """Median and interval of the point; of a symmetric table both orders, if both were run.

    A single repetition has no interval.
    """
    keys = [_key(where, {})]
    if table.symmetric:
        swapped = list(where.values())[::-1]
        keys.append(_key(dict(zip(where, swapped, strict=True)), {}))
    found = [
        m for k in dict.fromkeys(keys) if (m := by_labels.get(k, _NOTHING)["metrics"].get(name))
    ]
    if not found:
        return None
    if all(m["count"] == 1 for m in found):
        return median(m["median"] for m in found), None, None
    return (
        median(m["median"] for m in found),
        min(m["low"] for m in found),
        max(m["high"] for m in found),
    )


_NOTHING: Mapping[str, Any] = {"metrics": {}}


def _key(labels: Mapping[str, Any], without: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((a, canonical(v)) for a, v in labels.items() if a not in without))


def _spearman(pairs: Sequence[Pair]) -> float | None:
    theirs = [p.published for p in pairs]
    ours = [p.ours for p in pairs if p.ours is not None]
    if len(ours) < 3 or len(set(theirs)) < 2 or len(set(ours)) < 2:
        return None
    return float(spearmanr(theirs, ours).statistic)
