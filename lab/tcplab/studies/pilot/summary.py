"""Results of the pilot's campaigns, from their cells: pure, for making them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from tcplab.metrics import cell_metrics
from tcplab.results.read import Cell, ResultsError

Results = dict[str, Any]
AXIS = "variant"
"""Ways of choosing an algorithm, or tools."""
BASE = "none"
"""The variant without a tool."""


def by_variant(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Repetitions of each variant, in the order of the sweep."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(str(cell.labels[AXIS]), []).append(cell)
    return found


def cost(cells: Sequence[Cell]) -> Results:
    """Per tool and kind of traffic: events and nanoseconds per connection pair, of the median
    repetition."""
    results: Results = {}
    for tool, runs in by_variant(cells).items():
        results[tool] = {kind: _middle([_cost(run, kind) for run in runs]) for kind in _KINDS}
        results[tool]["decisions"] = decisions(runs[0])
    return results


_KINDS = ("short", "bulk")


def _cost(cell: Cell, kind: str) -> Results:
    """Raises ResultsError if nothing was counted: the tool was not attached."""
    found = metrics(cell)["groups"][kind]
    if not found.get("program_events"):
        raise ResultsError(f"{cell.id}: the tool's programs saw no event")
    return {
        "ns_per_event": round(found["program_ns_per_event"], 1),
        "events_per_pair": round(found["program_events"], 2),
        "ns_per_pair": round(found["program_ns"]),
    }


def _middle(rounds: list[Results]) -> Results:
    """The repetition of the median cost, with the costs of all."""
    by_cost = sorted(rounds, key=lambda r: r["ns_per_pair"])
    return {**by_cost[len(by_cost) // 2], "values": [r["ns_per_pair"] for r in rounds]}


def metrics(cell: Cell) -> Results:
    return cell.metrics() or cell_metrics(cell)


def decisions(cell: Cell) -> dict[str, int]:
    """The observed reasons, with their counts; empty unless tcpilot ran."""
    tuner = cell.tuner()
    reasons = tuner.status.get("connections", {}) if tuner else {}
    return {why: count for why, count in reasons.items() if count}


def tunings(cells: Sequence[Cell]) -> Results:
    """Per tool: nanoseconds per event in each repetition, their median, and its ratio to the
    peer's."""
    values = {
        tool: [_cost(run, "short")["ns_per_event"] for run in runs]
        for tool, runs in by_variant(cells).items()
    }
    peer = median(values[_PEER])
    return {
        tool: {"values": v, "median": median(v), "to_peer": round(median(v) / peer, 3)}
        for tool, v in values.items()
    }


_PEER = "bpftune-conn"


def short(cells: Sequence[Cell]) -> Results:
    """Connections per second."""

    def rate(cell: Cell) -> float:
        found = metrics(cell)["values"]
        if found["failed_connections"]:
            raise ResultsError(f"{cell.id}: short connections failed")
        return float(found["connections_per_s"])

    return _rounds(cells, rate)


def bulk(cells: Sequence[Cell]) -> Results:
    """Mean goodput of a repetition's connections, in bits per second."""
    return _rounds(cells, lambda cell: 1e6 * float(metrics(cell)["values"]["flow_goodput_mbit"]))


def _rounds(cells: Sequence[Cell], value: Callable[[Cell], float]) -> Results:
    """Values per tool, and the median's ratio to the one without a tool."""
    values = {tool: [value(run) for run in runs] for tool, runs in by_variant(cells).items()}
    base = median(values[BASE])
    return {
        tool: {"values": v, "median": median(v), "ratio": round(median(v) / base, 4)}
        for tool, v in values.items()
    }


def memory(cells: Sequence[Cell]) -> Results:
    """Resident and peak kB at each stage; of another tool than tcpilot with its name."""
    stages = {
        stage if variant == "tcpilot" else f"{variant}, {stage}": found
        for variant, (run, *_) in by_variant(cells).items()
        for stage, found in run.memory().items()
    }
    return {"resident": stages, "paths": _status(cells[0])["paths"]}


def scale(cells: Sequence[Cell]) -> Results:
    """Errors, the bound on paths, and what became of the busiest paths."""
    cell = cells[0]
    flows, status = cell.flows(), _status(cell)
    hot = flows[flows["group"] == "hot"]
    tuner = cell.tuner()
    known = tuner.connections if tuner else {}
    errors = flows[flows["error"].notna()].groupby("group").size().to_dict()
    return {
        "spread": {"errors": int(errors.get("spread", 0) + errors.get("hot", 0))},
        "hold": {"errors": int(errors.get("hold", 0))},
        "paths": {"spread": status["paths"]},
        "paths_max": status["paths_max"],
        "degraded": status["degraded"],
        "hot_connections": len(hot),
        "hot_path_connections": [known.get(address, 0) for address in sorted(set(hot["to"]))],
        "resident": cell.memory()["full"],
    }


def _status(cell: Cell) -> Results:
    tuner = cell.tuner()
    if not tuner or "paths" not in tuner.status:
        raise ResultsError(f"{cell.id}: tcpilot's status is missing")
    return tuner.status


SUMMARIES: dict[str, Callable[[Sequence[Cell]], Results]] = {
    "cost": cost,
    "tunings": tunings,
    "short": short,
    "bulk": bulk,
    "memory": memory,
    "scale": scale,
}
