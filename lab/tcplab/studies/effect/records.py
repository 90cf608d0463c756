"""One JSON line for each cell: where it came from, and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies.effect.figures import of_cell

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Campaign, place and cell."""


def of_campaign(folder: Path) -> dict[Key, Record]:
    """The good cells of a campaign, broken off or not.

    Raises ResultsError for records that nobody could make again: of files that differed from their
    commit.
    """
    campaign = read_campaign(folder)
    manifest = campaign.manifest
    if manifest["dirty"] or not manifest["commit"]:
        raise ResultsError(f"{folder}: of files that are in no commit")
    how = " --quick" if manifest["quick"] else ""
    how += " --engine here" if campaign.place == "host" else ""
    return {
        (campaign.name, campaign.place, cell.id): {
            "campaign": campaign.name,
            "place": campaign.place,
            "cell": cell.id,
            "command": f"tcplab run {campaign.name}{how}",
            "commit": manifest["commit"],
            "kernel": cell.kernel,
            "virtual_time": manifest["virtual_time"],
            "seed": manifest["seed"],
            "repetition": cell.repetition,
            "duration_s": cell.ideal.duration_s,
            "wall_s": cell.raw["wall_s"],
            "labels": cell.labels,
            "figures": of_cell(cell),
        }
        for cell in campaign.cells()
        if cell.status == "ok"
    }
