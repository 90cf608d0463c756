"""Sweeps: axes whose values multiply.

    [sweep]
    qdisc = { set = "link.bottleneck.qdisc", values = ["pfifo", "fq_codel"] }
    case = { values = [ { label = "loss", "link.bottleneck.loss_percent" = 1 }, … ] }
    second = { set = "flow.second.cc", first = ["none"], values_of = "first" }
    symmetric = ["first", "second"]        # of two equal axes, each pair once
    variant = { tools = ["cubic", "tcpilot"] } # names of tools.py
    case.only = ["loss"]                   # those values alone, for the quick form

`set` names a key of a cell: `link.NAME.KEY`, `flow.NAME.KEY`, `change.NUMBER.KEY` from 0 on,
`tuner.KEY`, `watch.KEY`, `sysctl.KEY`, or a list of them.  A table as a value has a label, and sets
the keys it names.  `AXIS.LABEL.KEY` sets a key only in cells with this label of another axis:
`{ label = "loss", path.direct.flow.bulk.each_s = 2 }`.
`first` are values before those of the other axis, exempt from symmetry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tcplab.scenario.errors import Place, Problem, Unknown
from tcplab.scenario.fields import suggestion, unknown_key
from tcplab.scenario.model import DATAGRAMS, SYSTEM
from tcplab.scenario.tools import EVERY_FLOW, Tool, chosen

_HEADS = ("link", "flow", "change", "tuner", "watch", "capture", "measure", "sysctl")
"""First words of a cell's keys."""
_AXIS_KEYS = ("set", "values", "values_of", "first", "tools", "only")
SYMMETRIC = "symmetric"


@dataclass(frozen=True)
class Choice:
    """One value of one axis."""

    axis: str
    position: int | None
    """Among the common values of symmetric axes; None for other values."""
    label: Any
    settings: dict[str, Any]

    def settings_with(self, labels: dict[str, Any]) -> dict[str, Any]:
        """Its keys and values in a cell with these labels."""
        found, conditional = {}, {}
        for key, value in self.settings.items():
            axis = _axis_of(key, labels)
            if axis is None:
                found[key] = value
            elif key.startswith(before := f"{axis}.{labels[axis]}."):
                conditional[key.removeprefix(before)] = value
        return {**found, **conditional}

    def apply(
        self,
        table: dict[str, Any],
        labels: dict[str, Any],
        origins: dict[Place, Place],
        unknown: Unknown,
        problems: list[Problem],
    ) -> set[str]:
        """Sets its keys in the tables of a cell; returns the last parts of those it cannot set."""
        origin: Place = ("sweep", self.axis)
        lost = set()
        for key, value in self.settings_with(labels).items():
            try:
                origins[_assign(table, key, value)] = origin
            except ValueError as wrong:
                lost.add(_leaf(key))
                if not unknown.has((key.partition(".")[0],)):
                    problems.append(Problem(origin, f"{self.axis}: {wrong}"))
        return lost


def _axis_of(key: str, axes: Iterable[str]) -> str | None:
    """The axis in a conditional key."""
    head = key.partition(".")[0]
    return head if head in axes and head not in _HEADS else None


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _assign(table: dict[str, Any], key: str, value: Any) -> Place:
    if key == EVERY_FLOW:
        return _assign_to_all(table, value)
    head, _, rest = key.partition(".")
    if head in ("tuner", "watch", "capture", "measure", "sysctl") and rest:
        if isinstance(table.setdefault(head, {}), dict):
            table[head][rest] = value
        return (head, rest)
    name, _, leaf = rest.partition(".")
    if head == "change" and leaf:
        return _assign_change(table, name, leaf, value)
    if head not in ("link", "flow") or not leaf:
        raise ValueError(
            f"{key!r} cannot be set; write link.NAME.KEY, flow.NAME.KEY, change.NUMBER.KEY, "
            "tuner.KEY, watch.KEY or sysctl.KEY"
        )
    tables = table.get(head, [])
    items = [i for i in tables if isinstance(i, dict)] if isinstance(tables, list) else []
    known = [str(item.get("name", "bottleneck")) for item in items]
    if name not in known:
        raise ValueError(f"there is no {head} {name!r}{suggestion(name, known)}")
    position = known.index(name)
    items[position][leaf] = value
    return (head, position, leaf)


def _assign_change(table: dict[str, Any], number: str, leaf: str, value: Any) -> Place:
    """Changes have no names: the first is number 0."""
    tables = table.get("change", [])
    items = tables if isinstance(tables, list) else []
    if (
        not number.isdigit()
        or int(number) >= len(items)
        or not isinstance(items[int(number)], dict)
    ):
        raise ValueError(f"there is no change {number}; the first is change.0")
    items[int(number)][leaf] = value
    return ("change", int(number), leaf)


def _assign_to_all(table: dict[str, Any], wanted: str | tuple[int, ...]) -> Place:
    """The congestion control of every flow without one."""
    tables = table.get("flow", [])
    items = [i for i in tables if isinstance(i, dict)] if isinstance(tables, list) else []
    own = ("short", *DATAGRAMS)
    free = [i for i in items if i.get("cc", SYSTEM) == SYSTEM and i.get("kind") not in own]
    for position, item in enumerate(free):
        item["cc"] = wanted if isinstance(wanted, str) else _arm(table, wanted, position)
    return ("flow", 0, "cc")


def _arm(table: dict[str, Any], places: tuple[int, ...], position: int) -> str:
    place = places[position % len(places)]
    tuner = table.get("tuner", {})
    arms = tuner.get("algorithms", []) if isinstance(tuner, dict) else []
    if not isinstance(arms, list) or place >= len(arms):
        raise ValueError(f"tuner.algorithms has no place {place}; name the algorithms there")
    return str(arms[place])


@dataclass(frozen=True)
class Axes:
    """All axes of a sweep, in the order of the file."""

    values: dict[str, list[Choice]]
    symmetric: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The names of all axes, including unreadable ones."""
    lost: frozenset[str] = frozenset()
    """The last parts of the keys of unreadable axes."""

    def labels(self) -> dict[str, list[Any]]:
        return {axis: [choice.label for choice in found] for axis, found in self.values.items()}

    def combinations(self) -> Iterator[tuple[Choice, ...]]:
        for combination in itertools.product(*self.values.values()):
            shared = [c.position for c in combination if c.axis in self.symmetric]
            positions = [position for position in shared if position is not None]
            if len(positions) < len(shared) or positions == sorted(positions):
                yield combination


def read_axes(raw: dict[str, Any], problems: list[Problem], tools: dict[str, Tool]) -> Axes:
    """The readable axes of a [sweep] table."""
    tables = {axis: table for axis, table in raw.items() if axis != SYMMETRIC}
    every: dict[str, list[Choice]] = {}
    values: dict[str, list[Choice]] = {}
    lost: set[str] = set()
    for axis, table in tables.items():
        found = _read_axis(axis, table, raw, problems, tools)
        if found is None:
            lost |= _targets(table)
        else:
            every[axis], values[axis] = found
    problems += _without_label(every)
    symmetric = raw.get(SYMMETRIC, [])
    if not isinstance(symmetric, list):
        problems.append(Problem(("sweep", SYMMETRIC), "symmetric: a list of axes is expected"))
        symmetric = []
    for axis in symmetric:
        if axis not in tables:
            text = f"symmetric: there is no axis {axis!r}{suggestion(str(axis), tables)}"
            problems.append(Problem(("sweep", SYMMETRIC), text))
    return Axes(values, tuple(symmetric), tuple(tables), frozenset(lost))


def _without_label(every: dict[str, list[Choice]]) -> list[Problem]:
    """Conditional keys whose axis lacks the label."""
    found = []
    for choice in itertools.chain(*every.values()):
        for key in choice.settings:
            if (axis := _axis_of(key, every)) is None:
                continue
            known = [str(other.label) for other in every[axis]]
            if not any(key.startswith(f"{axis}.{label}.") for label in known):
                label = key.split(".")[1]
                text = f"{axis} has no label {label!r}{suggestion(label, known)}"
                found.append(Problem(("sweep", choice.axis), f"{choice.axis}: {key}: {text}"))
    return found


def _read_axis(
    axis: str,
    table: Any,
    raw: dict[str, Any],
    problems: list[Problem],
    tools: dict[str, Tool],
) -> tuple[list[Choice], list[Choice]] | None:
    """All of its values, and those of `only`; None if its values are not known."""
    place: Place = ("sweep", axis)
    if not isinstance(table, dict):
        problems.append(Problem(place, f"{axis}: a table with values is expected"))
        return None
    wrong_keys = [unknown_key(place, key, _AXIS_KEYS) for key in table if key not in _AXIS_KEYS]
    problems += wrong_keys
    try:
        found = _choices(axis, table, raw, tools)
        return found, _only(table.get("only"), found)
    except ValueError as wrong:
        # The intended key of a misspelled one is missing only for this reason.
        if not any(problem.spoils for problem in wrong_keys):
            problems.append(Problem(place, f"{axis}: {wrong}"))
        return None


def _targets(table: Any) -> set[str]:
    """The apparent keys of a broken axis, their last parts."""
    if not isinstance(table, dict):
        return set()
    texts = [text for value in table.values() for text in _texts(value)]
    return {_leaf(text) for text in texts if "." in text}


def _texts(value: Any) -> list[str]:
    """All texts in an axis's values and keys."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return list(flat(value))
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


def _only(labels: Any, found: list[Choice]) -> list[Choice]:
    """The values named by `only`, in their own order; all of them without it."""
    if labels is None:
        return found
    known = {str(choice.label) for choice in found}
    if not isinstance(labels, list) or not labels:
        raise ValueError("only: a list of labels is expected")
    for label in labels:
        if str(label) not in known:
            raise ValueError(f"only: there is no {label!r}{suggestion(str(label), sorted(known))}")
    return [choice for choice in found if choice.label in labels]


def _choices(
    axis: str, table: dict[str, Any], raw: dict[str, Any], tools: dict[str, Tool]
) -> list[Choice]:
    first, items = table.get("first", []), table.get("values")
    if "tools" in table:
        items = [*chosen(table["tools"], tools), *(items or [])]
    if not isinstance(first, list):
        raise ValueError("first: a list of values is expected")
    if "values_of" in table:
        other = raw.get(table["values_of"])
        if not isinstance(other, dict) or not isinstance(other.get("values"), list):
            raise ValueError(f"values_of: there is no axis {table['values_of']!r} with values")
        items = [*first, *other["values"]]
    if not isinstance(items, list) or not items:
        raise ValueError("values: a list with at least one value is expected")
    targets = table.get("set", [])
    targets = [targets] if isinstance(targets, str) else targets
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ValueError("set: a key or a list of keys is expected")
    choices = [
        _choice(axis, item, position, len(first), targets) for position, item in enumerate(items)
    ]
    seen = [choice.label for choice in choices]
    if len(set(map(str, seen))) < len(seen):
        raise ValueError("values: one is there twice")
    return choices


def _choice(axis: str, item: Any, position: int, alone: int, targets: list[str]) -> Choice:
    """One value; the first `alone` ones have no place in the order of symmetric axes."""
    if isinstance(item, dict):
        settings = flat({key: value for key, value in item.items() if key != "label"})
        label = item.get("label")
        if label is None:
            raise ValueError(f"value {position + 1} has no label")
    elif targets:
        settings, label = dict.fromkeys(targets, item), item
    else:
        raise ValueError("set: the key that the values are for is missing")
    return Choice(axis, position - alone if position >= alone else None, label, settings)


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
