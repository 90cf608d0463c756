"""The record of each cell: where it came from, and its figures."""

from __future__ import annotations

from tcplab.results.read import Campaign
from tcplab.studies import cells
from tcplab.studies.cells import Record
from tcplab.studies.effect.figures import of_cell


def of_campaign(campaign: Campaign) -> list[Record]:
    """The good cells of a campaign."""
    return [
        {
            **cells.origin(campaign, cell),
            "duration_s": cell.ideal.duration_s,
            "wall_s": cell.raw["wall_s"],
            "figures": of_cell(cell),
        }
        for cell in cells.good(campaign)
    ]
