"""The record of each cell: where it came from, and its figures."""

from __future__ import annotations

from pathlib import Path

from tcplab.studies import cells
from tcplab.studies.cells import Record
from tcplab.studies.effect.figures import of_cell


def of_campaign(folder: Path) -> list[Record]:
    """The good cells of a campaign, also of its quick form.  Raises ResultsError."""
    return [
        {
            **cells.origin(campaign, cell),
            "duration_s": cell.ideal.duration_s,
            "wall_s": cell.raw["wall_s"],
            "figures": of_cell(cell),
        }
        for campaign, cell in cells.good(folder, quick=True)
    ]
