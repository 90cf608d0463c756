"""Tools: a campaign's named ways of choosing a congestion control.

    [tools.tcpilot-eager]
    tuner = "tcpilot"
    config = '''
    [learner]
    epsilon = 5
    '''

    [sweep.variant]
    tools = ["cubic", "tcpilot", "tcpilot-eager"]

A tool may be named as often as there are configurations of it.  The tools of tools.toml exist in
every scenario; a scenario can replace them by name.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from tcplab.scenario.errors import Problem
from tcplab.scenario.fields import checked, choice, read, suggestion
from tcplab.scenario.model import SYSTEM, TUNERS, read_parts

EVERY_FLOW = "every.cc"
"""Sets the congestion control of all flows without one; a list of numbers deals the algorithms of
`tuner.algorithms` to them in turn."""


def _places(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 8 for n in value):
        raise ValueError(f"a list of places from 0 on is expected, not {value!r}")
    return tuple(value)


@dataclass(frozen=True)
class Tool:
    """An algorithm set by the application, or a tuner with its configuration."""

    cc: str = checked(SYSTEM, lambda value: str(value))
    arms: tuple[int, ...] = checked((), _places)
    """In place of `cc`: algorithms of `tuner.algorithms` by their place, for the flows in turn."""
    tuner: str = choice("none", *TUNERS)
    config: str = checked("", lambda value: str(value))
    """tcpilot's configuration, as text."""
    options: str = checked("", lambda value: str(value))
    """Further options of bpftune."""
    parts: tuple[str, ...] = checked((), read_parts)
    """Parts of the tuner `limit`."""

    def settings(self) -> dict[str, Any]:
        """Its keys in a cell."""
        found: dict[str, Any] = {
            "tuner.name": self.tuner,
            "tuner.config": self.config,
            "tuner.options": self.options,
            "tuner.parts": list(self.parts),
        }
        if self.arms:
            return {**found, EVERY_FLOW: self.arms}
        return found if self.cc == SYSTEM else {**found, EVERY_FLOW: self.cc}


@cache
def common() -> dict[str, Tool]:
    """The tools of tools.toml."""
    text = files("tcplab.scenario").joinpath("tools.toml").read_text(encoding="utf-8")
    return {name: Tool(**table) for name, table in tomllib.loads(text).items()}


def read_tools(raw: Any, problems: list[Problem]) -> dict[str, Tool]:
    """The common tools, and those of the scenario's [tools.NAME] tables."""
    if not isinstance(raw, dict):
        problems.append(Problem(("tools",), "tools: write [tools.NAME], a table for each"))
        raw = {}
    own = {name: read(Tool, table, ("tools", name), problems) for name, table in raw.items()}
    return {**common(), **own}


def chosen(names: Any, known: dict[str, Tool]) -> list[dict[str, Any]]:
    """Values of an axis: a label and settings for each name.  Raises ValueError."""
    if not isinstance(names, list) or not names:
        raise ValueError("tools: a list of names is expected")
    for name in names:
        if name not in known:
            raise ValueError(f"tools: {name!r} is not known{suggestion(str(name), known)}")
    return [{"label": name, **known[name].settings()} for name in names]
