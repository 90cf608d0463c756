"""A campaign's tables as CSV, for programs without Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from tcplab.results.read import Campaign, ResultsError


def write_csv(campaign: Campaign, folder: Path | None = None) -> list[Path]:
    """NAME.csv for each NAME.parquet of each cell, in the cell's folder, or in one of its name
    below `folder`.  Raises ResultsError for a damaged table."""
    return list(_written(campaign, folder))


def _written(campaign: Campaign, folder: Path | None) -> Iterator[Path]:
    for cell in campaign.cells():
        place = cell.folder if folder is None else folder / cell.folder.name
        for table in sorted(cell.folder.glob("*.parquet")):
            try:
                frame = pd.read_parquet(table)
            except (OSError, ValueError) as problem:
                raise ResultsError(f"{table}: {problem}") from problem
            place.mkdir(parents=True, exist_ok=True)
            target = place / f"{table.stem}.csv"
            frame.to_csv(target, index=False)
            yield target
