"""Puts the page together: model, figures, style and script in one file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tcplab.catalogue import metric, percent
from tcplab.metrics.summary import summarise
from tcplab.report.flows import flow_metrics, flow_rows
from tcplab.report.model import model, packed_series, short
from tcplab.report.published import Comparison, Pair, comparisons, distinct
from tcplab.report.scale import scale
from tcplab.results.read import Campaign, Cell, read_campaign


def write(folder: Path | str) -> Path:
    """Writes report.html into a campaign's directory, and returns its path."""
    campaign = read_campaign(folder)
    target = campaign.folder / "report.html"
    temporary = target.with_suffix(".html.new")
    temporary.write_text(render(campaign), encoding="utf-8")
    temporary.replace(target)
    return target


def render(campaign: Campaign) -> str:
    """The whole page."""
    summary = campaign.summary() or summarise(campaign)
    cells = {c.id: c for c in campaign.cells()}
    environment = Environment(
        loader=PackageLoader("tcplab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["interval"] = interval
    environment.filters["short"] = short
    environment.filters["percent"] = percent
    return environment.get_template("page.html.j2").render(
        campaign=campaign,
        manifest=campaign.manifest,
        command=shlex.join(map(str, campaign.manifest.get("command") or [])),
        title=campaign.title,
        tally=_tally(cells.values()),
        kernels=sorted({c.kernel for c in cells.values() if c.kernel}),
        checks=_checks(cells.values()),
        flows=flow_rows(summary["points"]),
        flow_metrics=[metric(name) for name in flow_metrics(summary["points"])],
        bad=[c for c in cells.values() if c.status != "ok"],
        conditions=_common_sysctls(cells.values()),
        verdicts=[_shown(v) for v in summary.get("verdicts", [])],
        comparisons=[_compared(c) for c in comparisons(campaign, summary["points"])],
        model=_script_json(model(campaign, summary)),
        series=packed_series(summary["points"], cells),
        style=_asset("page.css"),
        script=Markup("\n").join(map(_asset, ("heat.js", "detail.js", "time.js", "main.js"))),
        plotly=_plotly(),
    )


def number(value: float | None, digits: int = 3) -> str:
    """For people: as many decimals as a reader can use, thousands apart, a dash for nothing."""
    if value is None:
        return "–"
    size = abs(value)
    if size and size < 0.5 * 10**-digits:
        return f"{value:.1e}"
    decimals = 0 if size >= 1000 else min(digits, 1) if size >= 100 else digits
    return f"{value:,.{decimals}f}".replace(",", "\u202f").replace("-", "−")


def interval(row: Mapping[str, Any], digits: int) -> str:
    """Low to high; a dash for a single repetition, without an interval."""
    if row["low"] is None:
        return "–"
    return f"{number(row['low'], digits)} to {number(row['high'], digits)}"


def _asset(name: str) -> Markup:
    return Markup((files("tcplab.report") / "templates" / name).read_text(encoding="utf-8"))


def _plotly() -> Markup:
    """The library as the plotly package ships it."""
    source = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return Markup(source.replace("</script", "<\\/script"))


def _script_json(found: Any) -> Markup:
    """JSON safe inside a script element."""
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _tally(cells: Iterable[Cell]) -> dict[str, int]:
    count = {"ok": 0, "rejected": 0, "failed": 0}
    for cell in cells:
        count[cell.status] += 1
    return count


def _common_sysctls(cells: Iterable[Cell]) -> dict[str, Any]:
    """Sysctls with the same value in all cells."""
    all_of_them = [c.raw.get("sysctls") or {} for c in cells if c.status != "failed"]
    first: dict[str, Any] = all_of_them[0] if all_of_them else {}
    return {k: v for k, v in first.items() if all(s.get(k) == v for s in all_of_them)}


def _checks(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """A row per calibration: how many passed, and the range of the measures."""
    rows: dict[str, dict[str, Any]] = {}
    for cell in cells:
        for name, check in cell.calibration.items():
            row = rows.setdefault(name, {"name": name, "ok": 0, "bad": 0, "measured": []})
            row["ok" if check.ok else "bad"] += 1
            if isinstance(check.measured, int | float):
                row["measured"].append(float(check.measured))
    return list(rows.values())


def _shown(verdict: Mapping[str, Any]) -> dict[str, Any]:
    known = metric(str(verdict["metric"]).split(" ")[0])
    ratio = "(ratio)" in str(verdict["metric"])
    return {**verdict, "unit": "×" if ratio else known.unit, "digits": 2 if ratio else known.digits}


def _compared(comparison: Comparison) -> dict[str, Any]:
    """The template's part of a comparison: a matrix for the script, or rows."""
    table = comparison.table
    widest = [_row(p) for p in comparison.widest()]
    return {
        "table": table,
        "condition": comparison.condition,
        "rho": comparison.rank_correlation,
        "compared": comparison.compared,
        "absent": _absent(comparison) if table.form == "matrix" else [],
        "published_count": len(distinct(table, comparison.pairs)),
        "widest": widest,
        "matrix": _script_json(_matrix(comparison)) if table.form == "matrix" else None,
        "rows": [_row(p) for p in comparison.pairs] if table.form == "figures" else [],
        "links": _by_point(comparison) if table.form == "links" else [],
        "arms": table.arms,
    }


def _row(pair: Pair) -> dict[str, Any]:
    known = metric(pair.metric)
    group = pair.metric.partition(".")[2]
    return {
        "what": pair.what,
        "where": pair.where,
        "metric": f"{known.title} of {group}" if group else known.title,
        "group": group,
        "published": pair.published,
        "ours": pair.ours,
        "low": pair.low,
        "high": pair.high,
        "gap": pair.gap,
        "over": pair.over,
        "unit": known.unit,
        "digits": min(known.digits, 2),
        "ratio": pair.ours / pair.published if pair.ours is not None and pair.published else None,
    }


def _by_point(comparison: Comparison) -> list[dict[str, Any]]:
    """A line per point of ours, with all its figures."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for pair in comparison.pairs:
        if pair.ours is not None:
            lines.setdefault(pair.what, []).append(_row(pair) | {"text": pair.text})
    return [{"what": what, "figures": figures} for what, figures in lines.items()]


def _matrix(comparison: Comparison) -> dict[str, Any]:
    """Three maps of the same shape: theirs, ours, ours minus theirs, as far as we have them."""
    pairs = comparison.pairs
    rows_axis, columns_axis = pairs[0].where

    def known(axis: str) -> list[Any]:
        """In the order of the publication."""
        there = {p.where[axis] for p in pairs if p.ours is not None}
        return [v for v in dict.fromkeys(p.where[axis] for p in pairs) if v in there]

    rows, columns = known(rows_axis), known(columns_axis)
    by_key = {(p.where[rows_axis], p.where[columns_axis]): p for p in pairs}

    def grid(value: Callable[[Pair], float | None]) -> list[list[float | None]]:
        return [[value(by_key[r, c]) for c in columns] for r in rows]

    return {
        "rows": rows,
        "columns": columns,
        "metric": pairs[0].metric,
        "scale": scale(
            (v for p in pairs if p.ours is not None for v in (p.published, p.ours)),
            metric(pairs[0].metric),
        ),
        "published": grid(lambda p: p.published),
        "ours": grid(lambda p: p.ours),
        "gap": grid(lambda p: p.gap),
    }


def _absent(comparison: Comparison) -> list[str]:
    """Values of the table's axes missing in our points."""
    values = dict.fromkeys(str(v) for p in comparison.pairs for v in p.where.values())
    ours = {str(v) for p in comparison.pairs if p.ours is not None for v in p.where.values()}
    return [v for v in values if v not in ours]
