"""Reads a scenario file, lays its quick form over it, multiplies its sweep, and validates every
cell before anything is started."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.scenario import lines
from tcplab.scenario.cells import ALL_KEYS, read_cell
from tcplab.scenario.errors import Place, Problem, ScenarioError, Unknown, located
from tcplab.scenario.fields import read
from tcplab.scenario.model import Cell
from tcplab.scenario.sweep import Axes, read_axes
from tcplab.scenario.tools import read_tools
from tcplab.scenario.top import CELL_KEYS, Top, check_expect

FOLDER = (Path(__file__).parents[1] / "scenarios").resolve()
"""The installed package's folder; in a checkout a link to lab/scenarios."""


@dataclass(frozen=True)
class Point:
    """One point of the sweep."""

    labels: dict[str, Any]
    cell: Cell


@dataclass(frozen=True)
class Scenario:
    """A validated scenario."""

    name: str
    path: Path
    source: str
    quick: bool
    top: Top
    axes: dict[str, list[Any]]
    points: tuple[Point, ...]
    resolved: dict[str, Any]
    """The file's content with the quick form laid over it."""
    only_repetitions: tuple[int, ...] = ()
    """Empty: all of them."""


def names() -> list[str]:
    """The laboratory's own campaigns."""
    return sorted(_campaigns())


def _campaigns() -> dict[str, Path]:
    """Name to file; a folder per kind of campaign, whose names differ across folders too."""
    return {path.stem: path for path in FOLDER.glob("*/*.toml")}


def find(name: str) -> Path:
    """The file of a campaign's name, or of a path."""
    path = Path(name)
    if path.suffix == ".toml" or "/" in name:
        if not path.is_file():
            raise ScenarioError([f"{path}: there is no such file"])
        return path
    campaigns = _campaigns()
    if name not in campaigns:
        there = ", ".join(sorted(campaigns))
        raise ScenarioError([f"{name}: there is no such campaign; there are: {there}"])
    return campaigns[name]


def load(path: Path, quick: bool = False) -> Scenario:
    """Raises ScenarioError with every problem found, each with file and line."""
    try:
        source = path.read_text()
        raw = tomllib.loads(source)
    except (OSError, UnicodeDecodeError) as problem:
        raise ScenarioError([f"{path}: cannot be read: {problem}"]) from None
    except tomllib.TOMLDecodeError as problem:
        # Its text ends with "(at line N, column M)".
        line = re.search(r"at line (\d+)", str(problem))
        number = int(line[1]) if line else None
        raise ScenarioError([located(path, number, f"no TOML: {problem}")]) from None
    problems: list[Problem] = []
    scenario = _read(path, source, raw, quick, problems)
    if problems:
        where = lines.index(source)
        found = {(_line(where, p.place, quick) or 0, p.text) for p in problems}
        texts = [located(path, line or None, text) for line, text in sorted(found)]
        raise ScenarioError(texts)
    return scenario


def _line(where: dict[Place, int], place: Place, quick: bool) -> int | None:
    """The line of a problem; in the quick form, if that replaced the key."""
    above = ("quick", *place)
    if quick and place and (there := [n for p, n in where.items() if p[: len(above)] == above]):
        return min(there)
    return lines.line_of(where, place)


def overlay(base: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`base` with the tables of `above` merged into it; other values replace."""
    merged = copy.deepcopy(base)
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = overlay(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _read(
    path: Path, source: str, raw: dict[str, Any], quick: bool, problems: list[Problem]
) -> Scenario:
    """The scenario, of use only if no problem was noted.

    A mistake hides no other: reading goes on without the value, and only checks of this value are
    left out.
    """
    has_quick = "quick" in raw
    quick_form = raw.pop("quick", {})
    if not isinstance(quick_form, dict):
        problems.append(Problem(("quick",), "quick: a table is expected"))
    elif quick and not has_quick:
        problems.append(Problem((), "there is no [quick] form; run it without --quick"))
    elif quick:
        raw = overlay(raw, quick_form)
    top = read(Top, raw, (), problems, CELL_KEYS)
    tools = read_tools(top.tools, problems)
    axes = read_axes(top.sweep, problems, tools)
    swept = not Unknown(problems).has(("sweep",))
    if swept:
        check_expect(top.expect, axes.names, problems)
    points = _points(top, axes, raw, problems, () if swept else ALL_KEYS)
    return Scenario(path.stem, path, source, quick, top, axes.labels(), tuple(points), raw)


def _points(
    top: Top, axes: Axes, raw: dict[str, Any], problems: list[Problem], lost: Iterable[str]
) -> list[Point]:
    """`lost` are the possible keys of an unreadable sweep."""
    above = list(problems)
    points = []
    for combination in axes.combinations():
        table = copy.deepcopy({key: raw[key] for key in CELL_KEYS if key in raw})
        origins: dict[Place, Place] = {}
        unset = {*axes.lost, *lost}
        labels = {choice.axis: choice.label for choice in combination}
        for choice in combination:
            unset |= choice.apply(table, labels, origins, Unknown(above), problems)
        cell, found = read_cell(top, table, above, unset)
        # A mistake in a swept value is in the sweep's line, not in the key's.
        problems += [Problem(_origin(p.place, origins), p.text) for p in found]
        points.append(Point(labels, cell))
    return points


def _origin(place: Place, origins: dict[Place, Place]) -> Place:
    return origins.get(place, place)
