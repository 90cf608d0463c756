"""The data of the page's script: points, their medians, their cells, the layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import pandas as pd

from tcplab.catalogue import metric
from tcplab.metrics.delays import quantiles
from tcplab.report.layout import described, layout
from tcplab.report.scale import scale, ticks
from tcplab.report.series import pack, series
from tcplab.results.read import Campaign, Cell

BUDGET_BYTES = 8_000_000
"""The page's budget for time series; the rest is the library (5 MB) and the figures."""
_BINS = (300, 150, 75)
_SOME = 16

Point = dict[str, Any]


def model(campaign: Campaign, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but the time series (see `packed_series`)."""
    points = list(summary["points"])
    cells = {c.id: c for c in campaign.cells()}
    present = present_in(points)
    axes = axes_of(campaign, points)
    chosen = layout(campaign.name, axes, present)
    return {
        "campaign": campaign.name,
        "axes": axes,
        "layout": {
            "rows": chosen.rows,
            "columns": chosen.columns,
            "facets": chosen.facets,
            "metric": chosen.metric,
            "across": chosen.across,
        },
        "metrics": {
            name: known | {"scale": scale(_medians(points, name), metric(name))}
            for name, known in described(present).items()
        },
        "points": (found := [_point(p, cells) for p in points]),
        "over_time": any(map(_has_trace, cells.values())),
        "virtual_time": bool(campaign.manifest.get("virtual_time")),
        "fct_axis": _fct_axis([ms for p in found for ms in p["fct"]]),
    }


def _has_trace(cell: Cell) -> bool:
    """Whether a link of its path follows a trace."""
    links = (cell.raw.get("scenario") or {}).get("links", [])
    return any(link.get("trace") for link in links)


def _medians(points: Sequence[Point], name: str) -> list[float]:
    return [p["metrics"][name]["median"] for p in points if name in p["metrics"]]


def _fct_axis(times_ms: Sequence[float]) -> dict[str, list[float]] | None:
    """Ends and marks of the axis of completion times; None without any."""
    known = [ms for ms in times_ms if ms > 0]
    if not known:
        return None
    ends = [min(known) / 1.05, max(known) * 1.05]
    return {"ends": ends, "ticks": ticks(*ends)}


def packed_series(points: Sequence[Point], cells: Mapping[str, Cell]) -> dict[str, str]:
    """Packed time series by cell, within the budget.

    Bins get wider first; if the page is still too large, only the repetition with the median
    goodput keeps its series.
    """
    everything = [c["id"] for p in points for c in p["cells"] if c["status"] != "failed"]
    typical = [i for p in points if (i := _typical(p)) is not None]
    for wanted, bins in [(everything, b) for b in _BINS] + [(typical, b) for b in _BINS]:
        found = _within_budget([cells[i] for i in wanted if i in cells], bins)
        if found is not None:
            return found
    return {}


def _within_budget(cells: Sequence[Cell], bins: int) -> dict[str, str] | None:
    """None if they take more than the budget; a few of them show it in time."""
    some = cells[:: max(len(cells) // _SOME, 1)]
    if len(cells) > _SOME:
        size = sum(len(p) for c in some if (p := _packed(c, bins)))
        if size * len(cells) / len(some) > 1.2 * BUDGET_BYTES:
            return None
    found = {c.id: p for c in cells if (p := _packed(c, bins))}
    return found if sum(map(len, found.values())) <= BUDGET_BYTES else None


def _packed(cell: Cell, bins: int) -> str | None:
    drawn = series(cell, bins)
    return None if drawn is None else pack(drawn)


def _typical(point: Point) -> str | None:
    """The good repetition whose goodput is nearest the median."""
    good = [c["id"] for c in point["cells"] if c["status"] == "ok"]
    known = point["metrics"].get("goodput_mbit")
    if not good or known is None or len(known["values"]) != len(good):
        return good[0] if good else None
    values: list[float] = known["values"]
    middle = median(values)
    return str(good[min(range(len(good)), key=lambda i: abs(values[i] - middle))])


def present_in(points: Sequence[Point]) -> list[str]:
    """Metrics with a value at some point, not all of them 0."""
    names = {n: None for p in points for n in p["metrics"]}
    return [
        n
        for n in names
        if any(p["metrics"].get(n, {"median": 0})["median"] for p in points)
        and not _repeats_all(n, points)
    ]


def _repeats_all(name: str, points: Sequence[Point]) -> bool:
    """Whether a group's figure equals the one of all flows, since there is no other group."""
    base, _, group = name.partition(".")
    return bool(group) and all(
        p["metrics"].get(name) == p["metrics"].get(base) for p in points if name in p["metrics"]
    )


def axes_of(campaign: Campaign, points: Sequence[Point]) -> dict[str, list[Any]]:
    """The manifest's axes, followed by values found only in points."""
    axes = {a: list(values) for a, values in campaign.axes.items()}
    for point in points:
        for axis, value in point["labels"].items():
            values = axes.setdefault(axis, [])
            if value not in values:
                values.append(value)
    return axes


def _point(point: Point, cells: Mapping[str, Cell]) -> Point:
    mine = [cells[c["id"]] for c in point["cells"] if c["id"] in cells]
    tuner = next((t for c in mine if (t := c.tuner()) is not None), None)
    stored = next((m for c in mine if c.status == "ok" and (m := c.metrics())), None)
    return {
        "labels": point["labels"],
        "ok": point["ok"],
        "rejected": point["rejected"],
        "failed": point["failed"],
        "m": {n: _figures(m) for n, m in point["metrics"].items()},
        "cells": [_cell(c) for c in mine],
        "typical": _typical(point),
        "algorithms": point["algorithms"],
        "arms": point["arms"],
        "tuner": None if tuner is None else {"name": tuner.name, "table": tuner.table},
        "fct": (times := _completion_times(mine)),
        "fct_axis": _fct_axis(times),
        "fct_by_size": (stored or {}).get("fct_by_size", []),
    }


def _figures(known: Mapping[str, Any]) -> list[Any]:
    """Median, low, high, coverage, count, two modes, values."""
    values = [float(f"{v:.4g}") for v in known["values"]]
    keys = ("median", "low", "high")
    head = [float(f"{known[k]:.5g}") for k in keys]
    return [*head, known["coverage"], known["count"], int(known["two_modes"]), values]


def _cell(cell: Cell) -> dict[str, Any]:
    raw = cell.raw
    return {
        "id": cell.id,
        "repetition": cell.repetition,
        "status": cell.status,
        "error": cell.error,
        "kernel": cell.kernel,
        "commands": [f"{ns}: {c}" for ns, cs in (raw.get("commands") or {}).items() for c in cs],
        "seed": raw.get("seed"),
        "wall_s": raw.get("wall_s"),
        "virtual_s": raw.get("virtual_s"),
        "calibration": {
            name: [short(check.expected), short(check.measured), check.ok]
            for name, check in cell.calibration.items()
        },
    }


def short(value: Any) -> Any:
    """A measured number to four digits; anything else as it is."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _completion_times(cells: Sequence[Cell]) -> list[float]:
    """Quantiles of the completion times of all good repetitions together, in ms."""
    frames = [c.flows() for c in cells if c.status == "ok"]
    known = [f.loc[f["error"].isna() & ~_warm_up(f), "fct_s"] for f in frames if len(f)]
    if not known:
        return []
    pooled = pd.to_numeric(pd.concat(known)).dropna() * 1e3
    return [float(f"{v:.4g}") for v in quantiles(pooled)] if len(pooled) > 1 else []


def _warm_up(flows: pd.DataFrame) -> pd.Series[bool]:
    return flows["warmup"].fillna(False).astype(bool)
