"""One JSON line for each cell: its origin, and the figures that tables are made of."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tcplab.metrics import cell_metrics
from tcplab.results.read import Cell, ResultsError, read_campaign

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Campaign, place and cell."""
_VALUES = ("goodput_mbit", "standstill_s", "fct_ms_p50", "retransmit_ratio", "failed_connections")
_SLOW_START_S = 5
_PARTS = ("goodput_mbit", "link_share")


def of_campaign(folder: Path) -> dict[Key, Record]:
    """The good cells of a campaign.

    Raises ResultsError for records that nobody could make again: of a quick form, and of files that
    differed from their commit.
    """
    campaign = read_campaign(folder)
    manifest = campaign.manifest
    if manifest["quick"] or manifest["dirty"] or not manifest["commit"]:
        raise ResultsError(f"{folder}: a quick form, or of files that are in no commit")
    found = {}
    for cell in campaign.cells():
        if cell.status != "ok":
            continue
        metrics = cell_metrics(cell)
        parts = {
            name: {key: group[key] for key in _PARTS if group.get(key) is not None}
            for name, group in metrics["groups"].items()
        }
        here = " --engine here" if campaign.place == "host" else ""
        found[campaign.name, campaign.place, cell.id] = {
            "campaign": campaign.name,
            "place": campaign.place,
            "cell": cell.id,
            "command": f"tcplab run {campaign.name}{here}",
            "commit": manifest["commit"],
            "kernel": cell.kernel,
            "virtual_time": manifest["virtual_time"],
            "seed": manifest["seed"],
            "repetition": cell.repetition,
            "labels": cell.labels,
            "values": {key: metrics["values"][key] for key in _VALUES},
            "parts": parts,
        }
        if campaign.name == "path-shared":
            found[campaign.name, campaign.place, cell.id]["between_cuts"] = between_cuts(cell)
    return found


def between_cuts(cell: Cell) -> dict[str, float]:
    """Packets that a connection sends from one reduction of a window to the next, over all of its
    paths, after slow start.  A reduction shows as a new slow start threshold."""
    samples = cell.samples()
    late = samples.loc[samples["t_s"] > _SLOW_START_S].dropna(subset=["sent_packets"])
    flows = cell.flows()
    names = dict(zip(flows["flow"], flows["group"], strict=True))
    packets: dict[str, float] = defaultdict(float)
    cuts: dict[str, int] = defaultdict(int)
    for (flow, _), path in late.groupby(["flow", "link"], dropna=False):
        ordered = path.sort_values("t_s")
        name = str(names[flow])
        packets[name] += float(ordered["sent_packets"].iloc[-1] - ordered["sent_packets"].iloc[0])
        cuts[name] += int(ordered["ssthresh_packets"].diff().fillna(0).ne(0).sum())
    return {name: packets[name] / number for name, number in cuts.items() if number}


def load(path: Path) -> dict[Key, Record]:
    """Those that were published; none if nothing was."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {(record["campaign"], record["place"], record["cell"]): record for record in found}


def save(path: Path, found: dict[Key, Record]) -> None:
    """Replaces the file at once."""
    lines = [json.dumps(found[key], separators=(",", ":")) for key in sorted(found)]
    temporary = path.with_suffix(".new")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    temporary.replace(path)
