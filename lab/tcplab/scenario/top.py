"""The top of a scenario file: keys for all its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tcplab.catalogue import METRICS
from tcplab.published import names as published_names
from tcplab.scenario.errors import Problem
from tcplab.scenario.fields import flag, number, suggestion, text

CELL_KEYS = ("link", "flow", "tuner", "change", "sysctl", "watch", "capture", "measure")
"""Tables of a cell, open to sweeps."""
_EXPECT_KEYS = ("what", "metric", "where", "over", "low", "high", "source")


def _list_of_tables(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("a list of tables is expected")
    return value


def _list_of_texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of texts is expected")
    return value


def _published(value: Any) -> list[str]:
    for name in _list_of_texts(value):
        if name not in published_names():
            raise ValueError(f"there is no table {name!r}{suggestion(name, published_names())}")
    return _list_of_texts(value)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table is expected")
    return value


@dataclass(frozen=True)
class Top:
    """Keys of the whole campaign."""

    title: str = text(required=True)
    about: str = text("-")
    reference: str = text("-")
    scale: str | None = text()
    """How far rates, times and sizes are from those published."""
    kernel: str = text("6.12")
    seed: int = number(1, least=0, whole=True)
    repetitions: int = number(1, least=1, most=1_000, whole=True)
    duration_s: float = number(10.0, above=0, most=100_000)
    sample_ms: int = number(100, least=10, most=1_000, whole=True)
    drain_s: float = number(5.0, least=0, most=600)
    stand_ins: bool = flag()
    """tcpilot's algorithm of the same paper replaces one missing in the engine's kernel; each cell
    notes the replaced ones."""
    machine_only: str | None = text()
    """Why none of its cells can run on a host whose kernel has no modules."""
    published: list[str] = field(default_factory=list, metadata={"check": _published})
    expect: list[dict[str, Any]] = field(default_factory=list, metadata={"check": _list_of_tables})
    sweep: dict[str, Any] = field(default_factory=dict, metadata={"check": _table})
    tools: dict[str, Any] = field(default_factory=dict, metadata={"check": _table})


def check_expect(
    expect: list[dict[str, Any]], axes: Sequence[str], problems: list[Problem]
) -> None:
    """The form of each expected result; it is judged when there are results."""
    for position, item in enumerate(expect):
        for key, what in _wrong_in_expect(item, axes):
            problems.append(Problem(("expect", position, key), f"{key}: {what}"))


def _wrong_in_expect(item: dict[str, Any], axes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key in item:
        if key not in _EXPECT_KEYS:
            yield key, f"unknown{suggestion(key, _EXPECT_KEYS)}"
    name = item.get("metric")
    if not isinstance(name, str):
        yield "metric", "a metric's name is expected"
    elif (base := name.partition(".")[0]) not in METRICS:
        yield "metric", f"there is no metric {base!r}{suggestion(base, METRICS)}"
    bounds = [item[key] for key in ("low", "high") if key in item]
    if not bounds or not all(isinstance(bound, int | float) for bound in bounds):
        yield "low", "low or high, a number, is expected"
    elif len(bounds) == 2 and bounds[0] > bounds[1]:
        yield "low", f"{bounds[0]:g} is above high, {bounds[1]:g}"
    for key in ("where", "over"):
        for axis in item.get(key, {}):
            if axis not in axes:
                yield key, f"there is no axis {axis!r}{suggestion(axis, list(axes))}"
