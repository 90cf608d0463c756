"""Records of the pilot's campaigns, from which documents are made.

A record is one JSON object on one line, with its provenance.  Those from before campaigns measured
everything name a command that is no more; each keeps its place until a campaign replaces it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tcplab.results.read import Campaign, Cell, ResultsError, read_campaign
from tcplab.studies import lines
from tcplab.studies.pilot.summary import AXIS, SUMMARIES

Record = dict[str, Any]
_KINDS = {
    "cost": "cost",
    "tunings": "tunings",
    "short-direct": "short",
    "bulk": "bulk",
    "memory": "memory",
    "scale": "scale",
    "choice-direct": "choice",
    "choice": "choice",
}
"""What is made of each campaign."""
_CHOICES = {"choice-direct": "choice-veth", "choice": "choice-path"}
"""Campaigns with a record for each condition, and the first words of its name."""


def of_campaign(folder: Path | str) -> list[Record]:
    """The records of a campaign.  Raises ResultsError for one that none is made of, or that lacks
    a good cell."""
    campaign = read_campaign(folder)
    if campaign.name not in _KINDS:
        raise ResultsError(f"{campaign.folder}: records are made of {', '.join(_KINDS)}")
    cells = list(campaign.cells())
    bad = [cell.id for cell in cells if cell.status != "ok"]
    if bad or not cells or campaign.manifest["status"] != "complete":
        raise ResultsError(f"{campaign.folder}: not every cell is there and good: {bad}")
    return [_record(campaign, name, part) for name, part in _parts(campaign.name, cells).items()]


def _parts(campaign: str, cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells of each record, by its name."""
    if campaign not in _CHOICES:
        return {_KINDS[campaign]: list(cells)}
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(f"{_CHOICES[campaign]}-{cell.labels['condition']}", []).append(cell)
    return found


def _record(campaign: Campaign, name: str, cells: Sequence[Cell]) -> Record:
    manifest, some = campaign.manifest, cells[0]
    here = campaign.place == "host"
    words = ["tcplab run", campaign.name, *(["--quick"] if manifest["quick"] else [])]
    words += [f"--only {only}" for only in manifest.get("only") or []]
    words += ["--engine here"] if here else []
    times = "machine, virtual time" if manifest["virtual_time"] else "machine"
    return {
        "experiment": name,
        "command": " ".join(words),
        "parameters": parameters(cells),
        "commit": (manifest["commit"] or "unknown") + ("+" if manifest["dirty"] else ""),
        "kernel": some.kernel,
        "sysctls": some.raw["sysctls"],
        "where": "this host" if here else times,
        "wall_s": round(sum(cell.raw["wall_s"] for cell in cells)),
        "seed": manifest["seed"],
        "results": SUMMARIES[_KINDS[campaign.name]](cells),
    }


def parameters(cells: Sequence[Cell]) -> Record:
    """What the report says of the scenario: losses, and the most of any flow."""
    scenarios = [cell.raw["scenario"] for cell in cells]
    flows = [flow for scenario in scenarios for flow in scenario["flows"]]
    return {
        "repetitions": 1 + max(cell.repetition for cell in cells),
        "loss_percent": scenarios[0]["links"][0]["loss_percent"],
        "count": max(flow["connections"] or 0 for flow in flows),
        "distinct": max(flow["destinations"] or 0 for flow in flows),
        "held": max(flow["streams"] for flow in flows),
    }


def load(path: Path) -> dict[str, Record]:
    """Records by experiment, in the order of the names."""
    known = [line for line in lines.read(path).splitlines() if line]
    found = {record["experiment"]: record for record in map(json.loads, known)}
    return dict(sorted(found.items()))


def faults(record: Record) -> list[str]:
    """Why nobody can make this record again from its commit and command; empty if they can."""
    found = []
    if record["commit"] == "unknown":
        found.append("the commit is not known")
    if record["commit"].endswith("+"):
        found.append("files differed from the commit")
    if "--quick" in record["command"].split():
        found.append("the quick form")
    if any(word.startswith(f"{AXIS}=") for word in record["command"].split()):
        found.append("not every way")
    return found


def publish(target: Path, records: Iterable[Record]) -> dict[str, list[str]]:
    """Puts records into `target` in place of older ones of the same experiments.

    Those with faults stay out; returns them with their faults.
    """
    known = load(target) if target.exists() else {}
    refused = {}
    for record in records:
        if wrong := faults(record):
            refused[str(record["experiment"])] = wrong
        else:
            known[record["experiment"]] = record
    target.parent.mkdir(parents=True, exist_ok=True)
    lines.replace(target, "".join(_line(known[name]) for name in sorted(known)))
    return refused


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
