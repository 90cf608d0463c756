"""Records of the pilot's campaigns: one for all cells in a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from tcplab.results.read import Campaign, Cell, ResultsError
from tcplab.studies import cells
from tcplab.studies.cells import Record
from tcplab.studies.pilot.summary import SUMMARIES

_APART = ("path", "condition")
"""Axes whose values have a record each."""


def of_campaign(campaign: Campaign) -> list[Record]:
    """The records of a campaign.  Raises ResultsError if it lacks a good cell."""
    found = list(campaign.cells())
    bad = [cell.id for cell in found if cell.status != "ok"]
    if bad or not found or campaign.manifest["status"] != "complete":
        raise ResultsError(f"{campaign.folder}: not every cell is there and good: {bad}")
    parts: dict[str, list[Cell]] = {}
    for cell in found:
        words = [str(cell.labels[axis]) for axis in _APART if axis in cell.labels]
        parts.setdefault("-".join(words) or campaign.name, []).append(cell)
    return [_record(campaign, name, part) for name, part in parts.items()]


def _record(campaign: Campaign, name: str, part: Sequence[Cell]) -> Record:
    labels = {axis: part[0].labels[axis] for axis in _APART if axis in part[0].labels}
    found = {**cells.origin(campaign, part[0]), "cell": name, "labels": labels}
    del found["repetition"]
    return {
        **found,
        "parameters": parameters(part),
        "sysctls": part[0].raw["sysctls"],
        "wall_s": round(sum(cell.raw["wall_s"] for cell in part)),
        "results": SUMMARIES[campaign.name](part),
    }


def parameters(part: Sequence[Cell]) -> Record:
    """The scenario in a few numbers for the tables: losses, and the most of any flow."""
    scenarios = [cell.raw["scenario"] for cell in part]
    flows = [flow for scenario in scenarios for flow in scenario["flows"]]
    return {
        "repetitions": 1 + max(cell.repetition for cell in part),
        "loss_percent": scenarios[0]["links"][0]["loss_percent"],
        "count": max(flow["connections"] or 0 for flow in flows),
        "distinct": max(flow["destinations"] or 0 for flow in flows),
        "held": max(flow["streams"] for flow in flows),
    }
