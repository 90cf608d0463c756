"""Sweeps: axes whose values multiply.

    [sweep]
    qdisc = { set = "link.bottleneck.qdisc", values = ["pfifo", "fq_codel"] }
    case = { values = [ { label = "loss", "link.bottleneck.loss_percent" = 1 }, … ] }
    second = { set = "flow.second.cc", first = ["none"], values_of = "first" }
    symmetric = ["first", "second"]        # of two equal axes, each pair once

`set` names a key of a cell: `link.NAME.KEY`, `flow.NAME.KEY`, `tuner.KEY`, `watch.KEY`,
`sysctl.KEY`, or a list of them.  A value that is a table has a label, and sets the keys it names.
`first` are values before those of the other axis, which symmetry leaves alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tcplab.scenario.errors import Place, Problem
from tcplab.scenario.fields import suggestion

_AXIS_KEYS = ("set", "values", "values_of", "first")
SYMMETRIC = "symmetric"


@dataclass(frozen=True)
class Choice:
    """One value of one axis."""

    axis: str
    position: int | None
    """Among the values that symmetric axes share; None for one that stands alone."""
    label: Any
    settings: dict[str, Any]

    def apply(
        self, table: dict[str, Any], origins: dict[Place, Place], problems: list[Problem]
    ) -> None:
        """Sets its keys in the tables of a cell."""
        origin: Place = ("sweep", self.axis)
        for key, value in self.settings.items():
            try:
                origins[_assign(table, key, value)] = origin
            except ValueError as wrong:
                problems.append(Problem(origin, f"{self.axis}: {wrong}"))


def _assign(table: dict[str, Any], key: str, value: Any) -> Place:
    head, _, rest = key.partition(".")
    if head in ("tuner", "watch", "sysctl") and rest:
        table.setdefault(head, {})[rest] = value
        return (head, rest)
    name, _, leaf = rest.partition(".")
    if head not in ("link", "flow") or not leaf:
        raise ValueError(
            f"{key!r} cannot be set; write link.NAME.KEY, flow.NAME.KEY, tuner.KEY, "
            "watch.KEY or sysctl.KEY"
        )
    items = [item for item in table.get(head, []) if isinstance(item, dict)]
    known = [str(item.get("name", "bottleneck")) for item in items]
    if name not in known:
        raise ValueError(f"there is no {head} {name!r}{suggestion(name, known)}")
    position = known.index(name)
    items[position][leaf] = value
    return (head, position, leaf)


@dataclass(frozen=True)
class Axes:
    """All axes of a sweep, in the order of the file."""

    values: dict[str, list[Choice]]
    symmetric: tuple[str, ...]

    def labels(self) -> dict[str, list[Any]]:
        return {axis: [choice.label for choice in found] for axis, found in self.values.items()}

    def combinations(self) -> Iterator[tuple[Choice, ...]]:
        for combination in itertools.product(*self.values.values()):
            shared = [c.position for c in combination if c.axis in self.symmetric]
            positions = [position for position in shared if position is not None]
            if len(positions) < len(shared) or positions == sorted(positions):
                yield combination


def read_axes(raw: Any, problems: list[Problem]) -> Axes | None:
    """The axes of a [sweep] table."""
    if not isinstance(raw, dict):
        return None
    before = len(problems)
    values: dict[str, list[Choice]] = {}
    symmetric = raw.get(SYMMETRIC, [])
    for axis, table in raw.items():
        if axis != SYMMETRIC:
            values[axis] = _read_axis(axis, table, raw, problems)
    if len(problems) > before:
        return None
    for axis in symmetric:
        if axis not in values:
            text = f"symmetric: there is no axis {axis!r}{suggestion(str(axis), values)}"
            problems.append(Problem(("sweep", SYMMETRIC), text))
    return Axes(values, tuple(symmetric))


def _read_axis(axis: str, table: Any, raw: dict[str, Any], problems: list[Problem]) -> list[Choice]:
    place: Place = ("sweep", axis)
    if not isinstance(table, dict):
        problems.append(Problem(place, f"{axis}: a table with values is expected"))
        return []
    for key in table:
        if key not in _AXIS_KEYS:
            problems.append(Problem(place, f"unknown key {key!r}{suggestion(key, _AXIS_KEYS)}"))
    try:
        return _choices(axis, table, raw)
    except ValueError as wrong:
        problems.append(Problem(place, f"{axis}: {wrong}"))
        return []


def _choices(axis: str, table: dict[str, Any], raw: dict[str, Any]) -> list[Choice]:
    items = table.get("values")
    alone = len(table.get("first", []))
    if "values_of" in table:
        other = raw.get(table["values_of"])
        if not isinstance(other, dict) or "values" not in other:
            raise ValueError(f"values_of: there is no axis {table['values_of']!r} with values")
        items = [*table.get("first", []), *other["values"]]
    if not isinstance(items, list) or not items:
        raise ValueError("values: a list with at least one value is expected")
    targets = table.get("set", [])
    targets = [targets] if isinstance(targets, str) else targets
    choices = []
    for position, item in enumerate(items):
        if isinstance(item, dict):
            settings = flat({key: value for key, value in item.items() if key != "label"})
            label = item.get("label")
            if label is None:
                raise ValueError(f"value {position + 1} has no label")
        else:
            if not targets:
                raise ValueError("set: the key that the values are for is missing")
            settings, label = dict.fromkeys(targets, item), item
        order = position - alone if position >= alone else None
        choices.append(Choice(axis, order, label, settings))
    seen = [choice.label for choice in choices]
    if len(set(map(str, seen))) < len(seen):
        raise ValueError("values: one is there twice")
    return choices


def flat(table: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys: TOML reads unquoted dotted keys as tables."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            found |= flat(value, f"{name}.")
        else:
            found[name] = value
    return found
