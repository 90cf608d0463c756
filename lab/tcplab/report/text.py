"""A campaign's figures as Markdown, for terminals and for docs; and the same for programs.

Tables lie as the page's heat maps do (`layout`): median, and the interval where repetitions give
one.  Each goodput has its share of retransmitted segments next to it; each flow has a row of its
own.  The campaign's published tables follow, with our values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcplab.catalogue import metric, percent, price_of
from tcplab.metrics.summary import summarise
from tcplab.report.destinations import HEAD, destination_rows
from tcplab.report.flows import FLOW_METRICS, FlowRow, figure, flow_metrics, flow_rows
from tcplab.report.layout import Layout, layout
from tcplab.report.model import axes_of, present_in
from tcplab.report.published import Comparison, Pair, comparisons, distinct
from tcplab.results.read import Campaign

Point = Mapping[str, Any]


def as_json(campaign: Campaign) -> dict[str, Any]:
    """Head, points and comparisons, every published figure with ours."""
    summary = campaign.summary() or summarise(campaign)
    return {
        **_head(campaign),
        "points": summary["points"],
        "verdicts": summary.get("verdicts", []),
        "published": [_comparison_json(c) for c in comparisons(campaign, summary["points"])],
    }


def markdown(campaign: Campaign, wanted: Sequence[str] = ()) -> str:
    """`wanted`: metrics, by the catalogue's names; default: the page's first ones.

    KeyError for a metric missing in all points.
    """
    summary = campaign.summary() or summarise(campaign)
    points = summary["points"]
    axes = axes_of(campaign, points)
    chosen = layout(campaign.name, axes, present_in(points))
    if missing := [name for name in wanted if not any(name in p["metrics"] for p in points)]:
        raise KeyError(missing[0])
    parts = [_title(campaign)]
    if chosen.columns is None:
        parts.append(_by_metric(points, chosen, axes, wanted or chosen.across))
    else:
        for name in wanted or [chosen.metric]:
            parts += _maps(points, chosen, axes, name)
    if not wanted:
        parts += _flows(points, axes)
    parts += [_beside(c) for c in comparisons(campaign, points)]
    return "\n\n".join(parts)


def by_destination(campaign: Campaign) -> str:
    """A row for each destination and point; or a sentence about the lack of many destinations."""
    rows = destination_rows(campaign)
    return _table([*campaign.axes, *HEAD], rows) if rows else "no flow has many destinations"


def _title(campaign: Campaign) -> str:
    head = _head(campaign)
    state = "" if head["status"] == "complete" else f" ({head['status']})"
    dirty = "+" if head["dirty"] else ""
    where = f"commit {head['commit']}{dirty}, kernel {', '.join(head['kernels'])}, {head['engine']}"
    count = head["cells"]
    bad = f", {count['rejected']} rejected, {count['failed']} failed"
    lines = [f"# {campaign.title}{state}", "", f"{count['ok']} cells{bad}; {where}."]
    if campaign.manifest.get("scale"):
        lines.append(f"Scale: {campaign.manifest['scale']}.")
    return "\n".join(lines)


def _head(campaign: Campaign) -> dict[str, Any]:
    manifest = campaign.manifest
    cells = list(campaign.cells())
    return {
        "campaign": campaign.name,
        "status": manifest.get("status"),
        "commit": manifest.get("commit"),
        "dirty": bool(manifest.get("dirty")),
        "engine": manifest.get("engine"),
        "kernels": sorted({c.kernel for c in cells if c.kernel}),
        "cells": {s: sum(c.status == s for c in cells) for s in ("ok", "rejected", "failed")},
    }


def _by_metric(
    points: Sequence[Point], chosen: Layout, axes: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> str:
    """One axis down, metrics across."""
    axis = chosen.rows
    values = axes[axis] if axis else [None]
    rows = []
    for value in values:
        here = [p for p in points if axis is None or p["labels"].get(axis) == value]
        for point in here:
            named = "all" if value in (None, "") else str(value)
            rows.append([named, *(_figure(point, name) for name in names)])
    return _table([axis or "", *map(_caption, names)], rows)


def _maps(
    points: Sequence[Point], chosen: Layout, axes: Mapping[str, Sequence[Any]], name: str
) -> list[str]:
    """A table per condition: one axis down, the other across."""
    assert chosen.rows is not None and chosen.columns is not None
    conditions = list(dict.fromkeys(tuple(p["labels"][f] for f in chosen.facets) for p in points))
    conditions.sort(key=lambda c: [axes[f].index(v) for f, v in zip(chosen.facets, c, strict=True)])
    found = []
    for condition in conditions:
        where = dict(zip(chosen.facets, condition, strict=True))
        mine = [p for p in points if where.items() <= p["labels"].items()]
        labels = ", ".join(f"{a} {v}" for a, v in where.items())
        heading = f"## {_caption(name)}{': ' if labels else ''}{labels}"
        at = {(p["labels"][chosen.rows], p["labels"][chosen.columns]): p for p in mine}
        rows = [
            [str(row), *(_figure(at.get((row, column)), name) for column in axes[chosen.columns])]
            for row in axes[chosen.rows]
        ]
        corner = f"{chosen.rows} ↓ {chosen.columns} →"
        found.append(f"{heading}\n\n{_table([corner, *map(str, axes[chosen.columns])], rows)}")
    return found


def _figure(point: Point | None, name: str) -> str:
    if point is None:
        return ""
    price = price_of(name)
    known = point["metrics"]
    return figure(known.get(name), name, known.get(price) if price else None)


def _caption(name: str) -> str:
    known, group = metric(name), name.partition(".")[2]
    unit = f", {known.unit}" if known.unit else ""
    price = "; retransmitted" if price_of(name) else ""
    return f"{known.title}{' of ' + group if group else ''}{unit}{price}"


def _flows(points: Sequence[Point], axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """Each flow's goodput, a row per flow; nothing for campaigns of one flow."""
    found = flow_rows(points)
    head = [*axes, "flow", "Goodput, Mbit/s", "Retransmitted", "RTT p50, ms"]
    names = flow_metrics(points)
    if len(names) > len(FLOW_METRICS):
        head += ["Delay p50, ms", "Delay p99, ms", "Datagrams lost"]
    rows = [
        [
            *(str(row.labels.get(axis, "")) for axis in axes),
            row.flow,
            *(_flow_figure(row, name) for name in names),
        ]
        for row in found
    ]
    return [f"## Each flow\n\n{_table(head, rows)}"] if rows else []


def _flow_figure(row: FlowRow, name: str) -> str:
    known = row.figures[name]
    if name in ("retransmit_ratio", "datagram_loss"):
        return percent(known["median"]) if known else ""
    return figure(known, name, None)


def _beside(comparison: Comparison) -> str:
    table = comparison.table
    condition = ", ".join(f"{a} {v}" for a, v in comparison.condition.items())
    lines = [f"## Beside the published: {table.title}{' · ' + condition if condition else ''}"]
    lines += ["", f"Source: {table.source}. {table.note}", ""]
    total = len(distinct(table, comparison.pairs))
    said = f"{comparison.compared} of {total} figures compared"
    if comparison.rank_correlation is not None:
        said += f"; rank correlation (Spearman) {comparison.rank_correlation:.2f}"
    lines += [f"{said}. Cells: ours (published).", "", _FORMS[table.form](comparison)]
    if table.form == "matrix":
        lines += ["", "Differ most:", "", _widest(comparison)]
    return "\n".join(lines)


def _matrix(comparison: Comparison) -> str:
    """In the publication's order; a symmetric one's lower half."""
    pairs = comparison.pairs
    down, across = pairs[0].where
    at = {(p.where[down], p.where[across]): p for p in pairs if p.ours is not None}
    rows = [r for r in dict.fromkeys(p.where[down] for p in pairs) if any(r == k[0] for k in at)]
    columns = list(dict.fromkeys(p.where[across] for p in pairs))
    columns = [c for c in columns if any(c == k[1] for k in at)]

    def cell(row: Any, column: Any) -> str:
        upper = comparison.table.symmetric and columns.index(column) > rows.index(row)
        return "" if upper or (row, column) not in at else _both(at[row, column])

    body = [[str(row), *(cell(row, column) for column in columns)] for row in rows]
    return _table(["", *map(str, columns)], body)


def _links(comparison: Comparison) -> str:
    rows: dict[str, dict[str, str]] = {}
    for pair in comparison.pairs:
        if pair.ours is not None:
            rows.setdefault(pair.what, {})[pair.metric] = _both(pair)
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    body = [[what, *(row.get(name, "") for name in names)] for what, row in rows.items()]
    return _table(["", *map(_caption, names)], body)


def _figures(comparison: Comparison) -> str:
    """Ratios have no unit."""
    body = []
    for pair in comparison.pairs:
        unit = "" if pair.over else f", {metric(pair.metric).unit}"
        if pair.ours is not None:
            body.append([f"{pair.what}{unit}", _both(pair)])
    return _table(["", "ours (published)"], body)


_FORMS: dict[str, Callable[[Comparison], str]] = {
    "matrix": _matrix,
    "links": _links,
    "figures": _figures,
}


def _both(pair: Pair) -> str:
    return f"{_short(pair.ours)} ({_short(pair.published)})"


def _short(value: float | None) -> str:
    """Two decimals below 100, none above, as published tables have it."""
    return "" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _widest(comparison: Comparison) -> str:
    body = [[p.what, _short(p.ours), _short(p.published), f"{p.gap:+.2f}"] for p in
            comparison.widest() if p.gap is not None]  # fmt: skip
    return _table(["pair", "ours", "published", "difference"], body)


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    pairs = [
        {"where": p.where, "over": p.over, "metric": p.metric, "published": p.published}
        | {"ours": p.ours, "low": p.low, "high": p.high}
        for p in comparison.pairs
    ]
    return {**comparison.as_json(), "figures": pairs}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, its columns as wide as they need, for reading it unrendered."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            c.rjust(w) if i else c.ljust(w)
            for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join([first, *rest])} |"

    rule = [":" + "-" * (widths[0] - 1 or 1), *("-" * (w - 1 or 1) + ":" for w in widths[1:])]
    return "\n".join([line(head), line(rule), *map(line, rows)])
