"""The laboratory's tables of docs/measured/effect.md, each between two marks: `NAME PLACE`.
lab/simulate/src/bin/simulate-effect.rs makes the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp, sqrt
from statistics import mean
from typing import Any

from tcplab.studies import page as pages
from tcplab.studies.cells import Record
from tcplab.studies.effect.interval import Interval, interval, merged
from tcplab.studies.page import NONE, of

_MEASURES = {"goodput": "goodput", "duration": "time to complete"}
Spread = tuple[float, float]
"""A mean and its standard error."""


def renewed(page: str, records: list[Record]) -> str:
    """The page with renewed tables of the laboratory."""

    return pages.renewed(page, lambda name, place: _TABLES[name](pages.at(records, place)))


def _mean_of(found: Iterable[Any]) -> Spread | None:
    """The mean of several runs' means, with equal weights."""
    known = [one for one in found if one and one[0] is not None]
    if not known:
        return None
    return mean(one[0] for one in known), sqrt(sum(one[1] ** 2 for one in known)) / len(known)


def difference(one: Spread | None, other: Spread | None) -> Interval | None:
    """With an ordinary interval of 95 %: both were measured to their end."""
    if one is None or other is None:
        return None
    half = 1.96 * sqrt(one[1] ** 2 + other[1] ** 2)
    estimate = one[0] - other[0]
    return Interval(estimate, estimate - half, estimate + half)


def _percent(found: Interval | None) -> str:
    """Nats as a change in per cent."""
    if found is None:
        return NONE
    values = [100 * (exp(v) - 1) for v in (found.estimate, found.low, found.high)]
    return f"{values[0]:+.1f} % ({values[1]:+.1f} to {values[2]:+.1f})".replace("-", "−")


def truth(records: list[Record], campaign: str, measure: str, **labels: Any) -> Interval | None:
    """Gain of all connections by the second variant: runs of all-second less those of all-first."""
    both = (
        _mean_of(
            r["figures"]["all"][measure] for r in of(records, campaign, variant=variant, **labels)
        )
        for variant in ("all-second", "all-first")
    )
    return difference(*both)


def _per_connection(
    records: list[Record], campaign: str, measure: str, pair: tuple[str, str], **labels: Any
) -> Interval | None:
    """The result of an experiment with one of the two algorithms per connection."""
    cells = of(records, campaign, **labels)
    both = (
        _mean_of(cell["figures"]["means"].get(cc, {}).get(measure) for cell in cells)
        for cc in reversed(pair)
    )
    return difference(*both)


def reported(records: list[Record], campaign: str, name: str, **labels: Any) -> dict[str, Any]:
    """`tcpilot report` of all runs together, their sums added up: interval, pairs and verdicts."""
    cells = of(records, campaign, **labels)
    found = [
        measure
        for cell in cells
        if (report := cell["figures"].get("report"))
        and (measure := report["measures"].get(name)) is not None
    ]
    sums = merged(measure["sums"] for measure in found)
    return {
        "interval": interval(sums),
        "pairs": int(sums.get("count", 0)),
        "verdicts": [measure["verdict"] for measure in found],
    }


def verdict(found: Interval | None, less_is_better: bool) -> str:
    """As the daemon judges: "not shown" only if an effect worth having would have shown."""
    if found is None or (found.holds(0.0) and found.high - found.low > 2 * _WORTH):
        return "insufficient data"
    if found.holds(0.0):
        return "not shown"
    return "better" if (found.estimate < 0) == less_is_better else "worse"


_WORTH = 0.05
"""An effect worth having, in nats."""
_CONDITIONS = ("takes", "gains", "gains-much")
_SHARES = {"few": "1 of 4", "half": "2 of 4", "most": "3 of 4"}


def _trap(records: list[Record]) -> str:
    head = ["condition", "", "all use it (truth)", *_SHARES.values(), "`tcpilot report`", "says"]
    rows = [["Spang et al.", "throughput", "none", "few: +150 %", NONE, "most: −75 %", NONE, NONE]]
    swept = [record["labels"]["condition"] for record in of(records, "effect")]
    for condition in [one for one in _CONDITIONS if one in swept]:
        for measure, name in _MEASURES.items():
            report = reported(
                records, "effect", _told(measure), condition=condition, variant="report"
            )
            pair = ("cubic", "bbr")
            mixed = [
                _per_connection(
                    records, "effect", measure, pair, condition=condition, variant=variant
                )
                for variant in _SHARES
            ]
            rows.append(
                [
                    condition,
                    name,
                    _percent(truth(records, "effect", measure, condition=condition)),
                    *map(_percent, mixed),
                    f"{_percent(report['interval'])}, {report['pairs']} pairs",
                    verdict(report["interval"], measure == "duration"),
                ]
            )
    return pages.rows(head, rows)


def _told(measure: str) -> str:
    """The report's name; transfers of the laboratory are of this size."""
    return "goodput" if measure == "goodput" else "time to complete, 16 KiB to 256 KiB"


def _days(records: list[Record]) -> str:
    head = ["", "all treated less all held out (truth)", "`tcpilot report`", "pairs", "covers it"]
    rows = []
    names = {"goodput": "goodput", "duration": "time to complete, 16 KiB to 256 KiB"}
    for measure, name in names.items():
        true = truth(records, "effect-days", measure)
        report = reported(records, "effect-days", name, variant="report")
        found = report["interval"]
        covers = NONE if true is None or found is None else _word(found.holds(true.estimate))
        rows.append([name, _percent(true), _percent(found), str(report["pairs"]), covers])
    return pages.rows(head, rows)


def _word(is_so: bool) -> str:
    return "yes" if is_so else "**no**"


def _guard(records: list[Record]) -> str:
    head = ["variant", "delivered, MB", "of the default's", "stopped after, s"]
    default = [
        r["figures"]["all"]["mbytes"] for r in of(records, "effect-guard", variant="default")
    ]
    rows = []
    for variant in ("default", "unguarded", "guarded"):
        cells = of(records, "effect-guard", variant=variant)
        carried = [cell["figures"]["all"]["mbytes"] for cell in cells]
        if not carried:
            continue
        share = f"{mean(carried) / mean(default):.3f}" if default else NONE
        stops = [_stopped_s(cell) for cell in cells]
        said = ", ".join(f"{at_s:.0f}" for at_s in stops if at_s is not None) or NONE
        rows.append([variant, f"{mean(carried):.1f}", share, said])
    return pages.rows(head, rows)


def _stopped_s(cell: Record) -> float | None:
    """From the daemon's start to the first stop of the whole host."""
    report = cell["figures"].get("report") or {}
    at = [stop["at_unix_s"] for stop in report.get("stops", []) if stop["group"] == ""]
    return min(at) - report["since_unix_s"] if at else None


_TABLES: dict[str, Callable[[list[Record]], str]] = {
    "lab-trap": _trap,
    "lab-days": _days,
    "lab-guard": _guard,
}
