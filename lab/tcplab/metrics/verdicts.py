"""Whether a campaign meets its scenario's expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Protocol


class HasMedian(Protocol):
    """A point, as far as verdicts look at it."""

    @property
    def labels(self) -> Mapping[str, Any]: ...

    def median(self, name: str) -> float | None: ...


@dataclass(frozen=True)
class Verdict:
    """One expectation with its measure; `ok` is None without a measure."""

    what: str
    metric: str
    measured: float | None
    low: float | None
    high: float | None
    source: str
    ok: bool | None
    points: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def verdicts(expected: Sequence[Mapping[str, Any]], found: Sequence[HasMedian]) -> list[Verdict]:
    """Judges each expectation by the median over the points with its labels.

    With `over` it is the ratio of two such medians.  Bounds are inclusive.
    """
    return [_verdict(e, found) for e in expected]


def _verdict(expected: Mapping[str, Any], found: Sequence[HasMedian]) -> Verdict:
    name = str(expected["metric"])
    where: Mapping[str, Any] = expected.get("where") or {}
    over: Mapping[str, Any] | None = expected.get("over")
    values = _select(found, where, name)
    measured = median(values) if values else None
    if over is not None:
        base = _select(found, {**where, **over}, name)
        below = median(base) if base else None
        measured = measured / below if measured is not None and below else None
    low, high = expected.get("low"), expected.get("high")
    ok = None
    if measured is not None:
        ok = (low is None or measured >= low) and (high is None or measured <= high)
    return Verdict(
        what=str(expected.get("what") or name),
        metric=name + (" (ratio)" if over is not None else ""),
        measured=measured,
        low=low,
        high=high,
        source=str(expected.get("source") or ""),
        ok=ok,
        points=len(values),
    )


def _select(found: Sequence[HasMedian], where: Mapping[str, Any], name: str) -> list[float]:
    chosen = (p for p in found if all(p.labels.get(a) == v for a, v in where.items()))
    return [v for p in chosen if (v := p.median(name)) is not None]
