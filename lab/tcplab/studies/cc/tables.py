"""The tables of docs/measured/congestion-controls.md and -cells.md from records, each between two
marks: `NAME PLACE`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import median

from tcplab.scenario import find, load
from tcplab.studies import page as pages
from tcplab.studies.cc import modules
from tcplab.studies.cells import Record


def renewed(page: str, records: list[Record]) -> str:
    """The page with renewed tables."""

    def table(name: str, place: str) -> str:
        campaign, make = _TABLES[name]
        found = _sorted(pages.of(pages.at(records, place), campaign), campaign)
        return make(found) if found else pages.NOT_RUN

    return pages.renewed(page, table)


def _sorted(records: list[Record], campaign: str) -> list[Record]:
    """In the order of the scenario: parts of a campaign come in any order."""
    axes = load(find(campaign)).axes
    return sorted(records, key=lambda r: [axes[axis].index(r["labels"][axis]) for axis in axes])


def laws(records: Sequence[Record]) -> str:
    """A row for each algorithm and condition: medians of the repetitions, and growth's range."""
    head = ["algorithm", "condition", "runs", "losses", "growth over the law's"]
    rows = []
    keys = product(*(pages.labels(records, "laws", axis) for axis in ("cc", "condition")))
    for cc, condition in keys:
        runs = [record["law"] for record in pages.of(records, "laws", cc=cc, condition=condition)]
        if not runs:
            continue
        row = [cc, condition, str(len(runs)), f"{median(run['cuts'] for run in runs):.0f}"]
        row.append(_shown([run["grown"] for run in runs], with_range=True))
        row += [_shown([run[name] for run in runs]) for name in ("kept", "kept_law")]
        rows.append([*row, f"{median(run['queued'] for run in runs):.1f}"])
    return pages.rows([*head, "kept at a loss", "kept by the law", "queue, packets"], rows)


def _shown(values: Sequence[float | None], with_range: bool = False) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return pages.NONE
    spread = f" ({min(known):.2f} to {max(known):.2f})" if with_range and len(known) > 1 else ""
    return f"{median(known):.2f}{spread}"


def _of_pairs(
    make: Callable[[Sequence[modules.Pair]], str],
) -> Callable[[Sequence[Record]], str]:
    return lambda records: make(modules.pairs(records))


_TABLES: dict[str, tuple[str, Callable[[Sequence[Record]], str]]] = {
    "modules-overview": ("modules", _of_pairs(modules.overview)),
    "modules-cells": ("modules", _of_pairs(modules.table)),
    "modules-costs": ("modules", _of_pairs(modules.costs)),
    "laws": ("laws", laws),
    "laws-pairs": ("laws", _of_pairs(modules.table)),
}
"""By name: the campaign, and the table of its records."""
