"""Pages of docs/measured with tables from records: the marks around a table, the selection of its
records, and the format of figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from tcplab.studies.cells import Record

NONE = "–"
"""A missing figure."""
NOT_RUN = "Not run yet.\n"
"""A table without records."""
_MARKS = re.compile(r"(<!-- table: (\S+) (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def renewed(page: str, table: Callable[[str, str], str]) -> str:
    """The page with its tables renewed: `table` makes one of the two words of its mark.  Marks of
    one word belong to other programs."""

    def between(mark: re.Match[str]) -> str:
        return f"{mark[1]}\n{table(mark[2], mark[3])}\n{mark[5]}"

    return _MARKS.sub(between, page)


def tables(page: str) -> dict[tuple[str, str], str]:
    """The tables between the marks, by the marks' two words."""
    return {(mark[2], mark[3]): mark[4] for mark in _MARKS.finditer(page)}


def rows(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    whole = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in whole)


def at(records: Iterable[Record], place: str) -> list[Record]:
    """The records measured there, on a host or in a machine."""
    return [record for record in records if record["place"] == place]


def of(records: Iterable[Record], campaign: str, **labels: Any) -> list[Record]:
    """The records of a campaign's cells with these labels."""
    return [
        record
        for record in records
        if record["campaign"] == campaign
        and all(record["labels"].get(axis) == value for axis, value in labels.items())
    ]


def labels(records: Iterable[Record], campaign: str, axis: str) -> list[Any]:
    """In the order of the records, and so of the scenario."""
    return list(dict.fromkeys(record["labels"][axis] for record in of(records, campaign)))


def median_and_range(values: Iterable[float | None], digits: int = 2, scale: float = 1.0) -> str:
    """The median, and if it is of several repetitions, their range and number."""
    known = sorted(value * scale for value in values if value is not None)
    if not known:
        return NONE
    middle = f"{median(known):.{digits}f}"
    if len(known) == 1:
        return middle
    return f"{middle} ({known[0]:.{digits}f} to {known[-1]:.{digits}f}; {len(known)})"
