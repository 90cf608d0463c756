"""Figures published by others, for comparison with campaigns.

Each table is a TOML file (title, source, which campaign and labels it belongs to) and, unless it is
short, a CSV file of its name, or named by its `data`.  The numbers are the publication's own.

Forms: `matrix` (two axes, one metric), `links` (a row per point, throughput on each link, compared
as a share of the link's rate), `figures` (each with its own labels; with `over` a ratio of two
points; or with `metrics` a CSV file of a row per point and a column per metric).
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tcplab.algorithms import without_prefix

_FOLDER = files(__name__)


@dataclass(frozen=True)
class Figure:
    """One published number and the matching labels of ours."""

    what: str
    metric: str
    where: dict[str, Any]
    over: dict[str, Any] | None
    value: float
    text: str
    """As published."""


@dataclass(frozen=True)
class Published:
    """One published table."""

    name: str
    title: str
    source: str
    note: str
    campaign: str
    form: str
    where: dict[str, list[Any]]
    """Our values covered by the publication, by axis; axes missing in ours do not matter."""
    symmetric: bool
    """Whether the two axes may be swapped."""
    figures: list[Figure]
    arms: list[dict[str, Any]]
    """A learner's table as published: condition, arm, cost, count, greedy, minimum RTT, rate."""


def names() -> list[str]:
    """All tables."""
    found = (f.name for f in _FOLDER.iterdir())
    return sorted(n.removesuffix(".toml") for n in found if n.endswith(".toml"))


def load(name: str) -> Published:
    """KeyError if there is no such table."""
    if name not in names():
        raise KeyError(f"no published table {name!r}; there are {', '.join(names())}")
    raw = tomllib.loads(_text(f"{name}.toml"))
    return Published(
        name=name,
        title=raw["title"],
        source=raw["source"].replace("\n", " "),
        note=raw["note"].replace("\n", " "),
        campaign=raw["campaign"],
        form=raw["form"],
        where=raw.get("where", {}),
        symmetric=raw.get("symmetric", False),
        figures=_FORMS[raw["form"]](name, raw),
        arms=_rows(raw["arms"]) if "arms" in raw else [],
    )


def of_campaign(campaign: str, wanted: Sequence[str] = ()) -> list[Published]:
    """The tables named, or all of a campaign with this name."""
    if wanted:
        return [load(name) for name in wanted]
    found = [t for t in map(load, names()) if t.campaign == campaign]
    return sorted(found, key=lambda t: t.title)


def canonical(value: Any) -> Any:
    """One spelling of an algorithm's or a qdisc's name: HS-TCP, hstcp and highspeed are one, and
    tcpilot's tp_lola is compared with LoLa.

    Numbers stay numbers, and numeric text becomes one.
    """
    if isinstance(value, int | float):
        return float(value)
    text = str(value).lower()
    try:
        return float(text)
    except ValueError:
        plain = "".join(c for c in without_prefix(text) if c.isalnum())
        return {"hstcp": "highspeed"}.get(plain, plain)


def _matrix(name: str, raw: Mapping[str, Any]) -> list[Figure]:
    rows, columns, metric = raw["rows"], raw["columns"], raw["metric"]
    found = []
    for row in csv.DictReader(_text(f"{name}.csv").splitlines()):
        here = row.pop(rows)
        for there, value in row.items():
            where = {rows: here, columns: there}
            found.append(Figure(f"{here}, {there}", metric, where, None, float(value), value))
    return found


def _links(name: str, raw: Mapping[str, Any]) -> list[Figure]:
    found = []
    for row in csv.DictReader(_text(f"{raw.get('data', name)}.csv").splitlines()):
        if any(row[column] not in allowed for column, allowed in raw["rows"].items()):
            continue
        where = {axis: row[axis] for axis in raw["axes"]}
        for link, capacity in raw["capacity"].items():
            rate = capacity[row[raw["axes"][0]]]
            share = float(row[link]) / rate
            text = f"{row[link]} of {rate}"
            what = ", ".join(where.values())
            found.append(Figure(what, f"link_share.{link}", where, None, share, text))
    return found


def _figures(name: str, raw: Mapping[str, Any]) -> list[Figure]:
    return [
        Figure(
            f["what"], f["metric"], f["where"], f.get("over"), float(f["value"]), str(f["value"])
        )
        for f in raw.get("figure", [])
    ] + [
        Figure(_named(row, raw["axes"]), metric, where, None, float(row[column]), str(row[column]))
        for row in (_rows(f"{name}.csv") if "metrics" in raw else [])
        for where in [{axis: row[axis] for axis in raw["axes"]}]
        for column, metric in raw["metrics"].items()
    ]


def _named(row: Mapping[str, Any], axes: Sequence[str]) -> str:
    return ", ".join(str(row[axis]) for axis in axes)


_FORMS = {"matrix": _matrix, "links": _links, "figures": _figures}


def _rows(file: str) -> list[dict[str, Any]]:
    return [
        {k: int(v) if v.isdigit() else v for k, v in row.items()}
        for row in csv.DictReader(_text(file).splitlines())
    ]


def _text(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")
