"""A campaign as tables for notebooks: `tcplab.load(folder)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tcplab.metrics import cell_metrics
from tcplab.results.read import FLOW_COLUMNS, SAMPLE_COLUMNS, Cell, read_campaign

_BESIDE = "_label"
"""Follows a label's name if the table has a column of the same name, such as `cc` of samples."""


class Frames(NamedTuple):
    """A campaign's data.  `cell` joins the tables; the labels of the sweep are columns of each.

    Times are seconds from the start of the traffic; other units stand in the names.
    """

    cells: pd.DataFrame
    """A row per cell: cell, labels, repetition, status, kernel, and every metric of
    docs/use/laboratory-metrics.md, those of one flow as `goodput_mbit.NAME`."""
    flows: pd.DataFrame
    """A row per connection."""
    samples: pd.DataFrame
    """The connections' state over time."""


def load(folder: Path | str) -> Frames:
    """The tables of a result directory, or of the newest below a folder with `latest`.

    Rejected and failed cells have a row with this `status` in `cells`, and are in no other table.
    Raises ResultsError if there is no campaign.
    """
    cells = list(read_campaign(folder).cells())
    good = [cell for cell in cells if cell.status == "ok"]
    return Frames(
        pd.DataFrame([_row(cell) for cell in cells]),
        _all(good, Cell.flows, FLOW_COLUMNS),
        _all(good, Cell.samples, SAMPLE_COLUMNS),
    )


def _row(cell: Cell) -> dict[str, Any]:
    row: dict[str, Any] = {"cell": cell.id, **cell.labels, "repetition": cell.repetition}
    row |= {"status": cell.status, "kernel": cell.kernel}
    if cell.status != "ok":
        return row
    found = cell.metrics() or cell_metrics(cell)
    row |= found["values"]
    for group, values in found["groups"].items():
        row |= {f"{name}.{group}": value for name, value in values.items()}
    return row


def _all(
    cells: Sequence[Cell], table: Callable[[Cell], pd.DataFrame], columns: list[str]
) -> pd.DataFrame:
    """One table of all cells, each row with its cell's name, labels and repetition."""
    frames = [_labelled(cell, table(cell)) for cell in cells]
    if not frames:
        return pd.DataFrame(columns=["cell", *columns])
    return pd.concat(frames, ignore_index=True)


def _labelled(cell: Cell, frame: pd.DataFrame) -> pd.DataFrame:
    added = {"cell": cell.id, **cell.labels, "repetition": cell.repetition}
    names = {name: f"{name}{_BESIDE}" if name in frame else name for name in added}
    before = pd.DataFrame({names[k]: [v] * len(frame) for k, v in added.items()}, frame.index)
    return pd.concat([before, frame], axis=1)
