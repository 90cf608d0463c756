"""The record of each cell: where it came from, and the figures for its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from tcplab.results.read import Campaign, Cell
from tcplab.studies import cells
from tcplab.studies.cells import Record
from tcplab.studies.learner.judge import Run, run_of

_KEPT = (
    "utility",
    "learned_utility",
    "link_utility",
    "goodput",
    "retransmit_ratio",
    "again",
    "default_share",
    "others",
)
"""How the figures' names begin."""


def of_campaign(campaign: Campaign) -> list[Record]:
    """The good cells of a campaign."""
    return [_record(campaign, cell) for cell in cells.good(campaign)]


def _record(campaign: Campaign, cell: Cell) -> Record:
    run = run_of(campaign, cell)
    kept = {name: value for name, value in run.figures.items() if name.startswith(_KEPT)}
    return {
        **cells.origin(campaign, cell),
        "tuned": run.tuned,
        "figures": {name: cells.rounded(value) for name, value in kept.items()},
    }


def runs(records: Iterable[Record]) -> list[Run]:
    """The published runs, in the judge's form."""
    return [
        Run(record["labels"], record["repetition"], record["tuned"], record["figures"])
        for record in records
    ]
