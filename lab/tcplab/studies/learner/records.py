"""One JSON line for each cell: where it came from, and the figures that it is judged by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies.learner.judge import Run, runs_of

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Campaign, place and cell."""
_KEPT = (
    "utility",
    "learned_utility",
    "link_utility",
    "goodput",
    "retransmit_ratio",
    "again",
    "default_share",
)
"""How the figures' names begin."""
_DIGITS = 6


def of_campaign(folder: Path) -> dict[Key, Record]:
    """The good cells of a campaign, broken off or not.

    Raises ResultsError for records that nobody could make again: of a quick form, and of files that
    differed from their commit.
    """
    campaign = read_campaign(folder)
    manifest = campaign.manifest
    if manifest["quick"] or manifest["dirty"] or not manifest["commit"]:
        raise ResultsError(f"{folder}: a quick form, or of files that are in no commit")
    here = " --engine here" if campaign.place == "host" else ""
    found = {}
    for cell, run in runs_of(campaign):
        found[campaign.name, campaign.place, cell.id] = {
            "campaign": campaign.name,
            "place": campaign.place,
            "cell": cell.id,
            "command": f"tcplab run {campaign.name}{here}",
            "commit": manifest["commit"],
            "kernel": cell.kernel,
            "virtual_time": manifest["virtual_time"],
            "seed": manifest["seed"],
            "repetition": run.repetition,
            "labels": run.labels,
            "tuned": run.tuned,
            "figures": {
                name: float(f"{value:.{_DIGITS}g}")
                for name, value in run.figures.items()
                if name.startswith(_KEPT)
            },
        }
    return found


def runs(records: Iterable[Record]) -> list[Run]:
    """The runs that were published, as the judge takes them."""
    return [
        Run(record["labels"], record["repetition"], record["tuned"], record["figures"])
        for record in records
    ]
