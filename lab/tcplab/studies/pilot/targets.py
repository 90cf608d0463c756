"""Targets of the measurements, and the measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]

# bpftune 0.4.2 on the same kernel, counted before: 426 ns per event, 16 events per pair.
PEER_NS_PER_PAIR = 426 * 16
LEAST_SHORT = 0.99
"""Share of the rate with the limit program, whose callbacks every such tool needs."""
LEAST_BULK = {"tcpilot-cubic": 0.99, "tcpilot": 0.97}
MOST_OF_FLOOR = 1.3
MOST_OF_LIMIT = 2.0
MOST_RESIDENT_KB = 30_000


@dataclass(frozen=True)
class Verdict:
    what: str
    measured: str
    met: bool


def at_least(what: str, value: float, bound: float) -> Verdict:
    return Verdict(f"{what} at least {bound:g}", f"{value:.3f}", value >= bound)


def at_most(what: str, value: float, bound: float) -> Verdict:
    return Verdict(f"{what} at most {bound:g}", f"{value:g}", value <= bound)


def bounds_of(results: Results, tool: str, kind: str) -> tuple[int, int]:
    """Nanoseconds per pair of a tool's limit and of its floor."""
    limit, floor = (results[name + _suffix(tool)][kind]["ns_per_pair"] for name in _BOUNDS)
    return limit, floor


_BOUNDS = ("limit", "floor")
_OURS = "tcpilot"
"""First word of its tools."""


def _suffix(tool: str) -> str:
    """A tool with bbr on each connection is compared with programs that also set it."""
    return "-set" if tool.endswith(("-bbr", "-set")) else ""


def cost(whole: Results) -> list[Verdict]:
    found = []
    for tool, kinds in whole["results"].items():
        if not tool.startswith(_OURS):
            continue
        value = kinds["short"]["ns_per_pair"]
        found.append(at_most(f"{tool}, ns per short pair", value, PEER_NS_PER_PAIR / 2))
        limit, floor = bounds_of(whole["results"], tool, "short")
        found.append(at_most(f"{tool}, floors", round(value / floor, 2), MOST_OF_FLOOR))
        found.append(at_most(f"{tool}, limits", round(value / limit, 2), MOST_OF_LIMIT))
    return found


def tunings(whole: Results) -> list[Verdict]:
    return [
        at_most(f"{tool}, ns per event", r["median"], PEER_NS_PER_PAIR / 16 / 2)
        for tool, r in whole["results"].items()
        if tool != "bpftune-conn"
    ]


def short(whole: Results) -> list[Verdict]:
    results = whole["results"]
    found = []
    for tool, r in results.items():
        if tool.startswith(_OURS):
            limit = results["limit" + _suffix(tool)]["median"]
            what = f"{tool}, of the limit program's rate"
            found.append(at_least(what, r["median"] / limit, LEAST_SHORT))
    return found


def bulk(whole: Results) -> list[Verdict]:
    return [
        at_least(f"{tool}, of the rate without a tool", whole["results"][tool]["ratio"], bound)
        for tool, bound in LEAST_BULK.items()
    ]


def memory(whole: Results) -> list[Verdict]:
    return [
        at_most(f"kB resident at the peak, {at}", r["peak_kb"], MOST_RESIDENT_KB)
        for at, r in whole["results"]["resident"].items()
        if not at.startswith("bpftune")
    ]


def scale(whole: Results) -> list[Verdict]:
    r = whole["results"]
    errors = r["spread"]["errors"] + r["hold"].get("errors", 0)
    remembered = sum(r["hot_path_connections"]) / r["hot_connections"]
    return [
        at_most("paths after the spread", r["paths"]["spread"], r["paths_max"]),
        at_most("connections that failed", errors, 0),
        at_least("hot connections remembered", remembered, 0.99),
    ]


_JUDGES: dict[str, Callable[[Results], list[Verdict]]] = {
    "cost": cost,
    "tunings": tunings,
    "short": short,
    "bulk": bulk,
    "memory": memory,
    "scale": scale,
}


def verdicts(record: Results) -> list[Verdict]:
    """The targets of a record, judged."""
    return _JUDGES[record["campaign"]](record)
