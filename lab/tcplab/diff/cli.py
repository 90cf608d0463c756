"""`tcplab diff A B`: text or JSON; status 0 the same, 1 different, 2 not comparable."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tcplab.catalogue import METRICS, metric, percent
from tcplab.diff.compare import DEFAULT_METRICS, DEFAULT_TOLERANCE, Diff, Row, compare
from tcplab.results.read import Campaign, ResultsError, read_campaign


def add_diff(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    parser = commands.add_parser(
        "diff",
        help="compare two campaigns point by point",
        description="Compares medians. Status 0: the same points, all within the tolerance; "
        "1: not so; 2: they cannot be compared.",
    )
    add = parser.add_argument
    add("a", type=Path, metavar="A", help="result directory")
    add("b", type=Path, metavar="B", help="result directory")
    add("--tolerance", type=_tolerance, default=DEFAULT_TOLERANCE, metavar="R",
        help="relative difference that is still the same (default: 0.02)")  # fmt: skip
    add("--metric", action="append", choices=sorted(METRICS), metavar="NAME",
        help="compare this one; may be given several times "
        f"(default: {', '.join(DEFAULT_METRICS)})")  # fmt: skip
    add("--all", action="store_true", help="also list differences within the tolerance")
    add("--json", action="store_true", help="everything, as JSON")
    parser.set_defaults(run=_run)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError("a number from 0 to 1 is expected, such as 0.02")
    return value


def _run(options: argparse.Namespace) -> int:
    from tcplab.metrics.summary import summarise

    try:
        campaigns = read_campaign(options.a), read_campaign(options.b)
        a, b = (c.summary() or summarise(c) for c in campaigns)
    except ResultsError as problem:
        print(f"tcplab diff: {problem}", file=sys.stderr)
        return 2
    found = compare(a, b, options.tolerance, options.metric or DEFAULT_METRICS)
    if not found.rows:
        print("tcplab diff: the two campaigns have no point in common", file=sys.stderr)
        return 2
    if options.json:
        heads = {"a": _head(campaigns[0]), "b": _head(campaigns[1])}
        print(json.dumps({**heads, **found.as_json()}, indent=1))
    else:
        print(text(campaigns, found, options.all))
    return 0 if found.same else 1


def text(campaigns: Sequence[Campaign], found: Diff, everything: bool = False) -> str:
    """The differences as a table; a line about each campaign above, a count below."""
    lines = []
    for letter, campaign in zip("AB", campaigns, strict=True):
        head = _head(campaign)
        dirty = "+" if head["dirty"] else ""
        lines.append(
            f"{letter}  {head['directory']}  {head['status']}, commit {head['commit']}{dirty}, "
            f"{head['engine']}, kernel {head['kernel']}"
        )
    for letter, only in (("A", found.only_a), ("B", found.only_b)):
        lines += [f"only in {letter}: {_labels(labels)}" for labels in only]
    rows = found.rows if everything else found.beyond
    if rows:
        lines += ["", *_table([_shown(row) for row in rows])]
    lines += ["", _verdict(found)]
    return "\n".join(lines)


def _verdict(found: Diff) -> str:
    points = len({tuple(row.labels.items()) for row in found.rows})
    return (
        f"{len(found.beyond)} of {len(found.rows)} figures of {points} points differ by more than "
        f"{found.tolerance:.1%}"
    )


_HEAD = ("point", "metric", "A", "B", "difference", "")


def _shown(row: Row) -> tuple[str, ...]:
    known = metric(row.metric)
    unit = f" {known.unit}" if known.unit else ""

    prices = row.retransmitted or (None, None)

    def number(value: float | None, price: float | None) -> str:
        shown = "-" if value is None else f"{value:.{known.digits}f}{unit}"
        return shown if price is None else f"{shown}, {percent(price)} retr."

    relative = "-" if row.relative is None else f"{row.relative:+.1%}"
    mark = "beyond" if row.beyond else ""
    if row.apart is not None:
        mark += ", intervals apart" if row.apart else ", intervals overlap" if row.beyond else ""
    return (
        _labels(row.labels),
        row.metric,
        number(row.a, prices[0]),
        number(row.b, prices[1]),
        relative,
        mark,
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they need; numbers to the right."""
    widths = [max(len(r[i]) for r in [_HEAD, *rows]) for i in range(len(_HEAD))]
    return [
        "  ".join(
            cell.rjust(width) if 2 <= i <= 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [_HEAD, *rows]
    ]


def _labels(labels: Mapping[str, Any]) -> str:
    return " ".join(f"{axis}={value}" for axis, value in labels.items()) or "(all)"


def _head(campaign: Campaign) -> dict[str, Any]:
    """The facts about a campaign for judging a difference."""
    manifest = campaign.manifest
    kernels = sorted({c.kernel for c in campaign.cells() if c.kernel})
    return {
        "directory": campaign.folder.name,
        "status": manifest.get("status"),
        "commit": manifest.get("commit"),
        "dirty": bool(manifest.get("dirty")),
        "engine": manifest.get("engine"),
        "virtual_time": manifest.get("virtual_time"),
        "kernel": ", ".join(kernels) or None,
        "seed": manifest.get("seed"),
    }
