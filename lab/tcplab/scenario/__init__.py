"""Scenarios: experiments as data (TOML), validated before anything starts."""

from tcplab.scenario.errors import ScenarioError
from tcplab.scenario.load import Point, Scenario, find, load, names
from tcplab.scenario.model import Cell, Flow, Link, Tuner, cell_from_json
from tcplab.scenario.select import selected

__all__ = [
    "Cell",
    "Flow",
    "Link",
    "Point",
    "Scenario",
    "ScenarioError",
    "Tuner",
    "cell_from_json",
    "find",
    "load",
    "names",
    "selected",
]
