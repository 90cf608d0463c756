"""Published records: a line of JSON for each good cell of a campaign, or for each group of cells
behind one figure.

A record names its origin: the command, the commit, the kernel and the seed, to make it again.  A
study adds its figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tcplab.results import windows
from tcplab.results.read import Campaign, Cell
from tcplab.studies import lines

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Campaign, place and cell."""
_DIGITS = 6


def good(campaign: Campaign) -> Iterator[Cell]:
    """The good cells of a campaign, even of an interrupted one."""
    for cell in campaign.cells():
        # Older results have no verdict on their windows.
        if cell.status == "ok" and windows.largest(cell.samples()) <= windows.MOST_PACKETS:
            yield cell


def name(campaign: Campaign, cell: Cell) -> str:
    """A cell's name: without its number, since partial runs of a campaign number differently."""
    words = "-".join(str(label).replace("-", "_") for label in cell.labels.values())
    quick = "-quick" if campaign.manifest["quick"] else ""
    return f"{words or campaign.name}.{cell.repetition}{quick}"


def key(record: Record) -> Key:
    return record["campaign"], record["place"], record["cell"]


def origin(campaign: Campaign, cell: Cell) -> Record:
    """The first part of a cell's record."""
    manifest = campaign.manifest
    return {
        "campaign": campaign.name,
        "place": campaign.place,
        "cell": name(campaign, cell),
        "command": command(campaign),
        "commit": manifest["commit"],
        "kernel": cell.kernel,
        "virtual_time": manifest["virtual_time"],
        "seed": manifest["seed"],
        "repetition": cell.repetition,
        "labels": cell.labels,
    }


def command(campaign: Campaign) -> str:
    """What makes the campaign's cells again."""
    manifest = campaign.manifest
    words = ["tcplab run", campaign.name, *(["--quick"] if manifest["quick"] else [])]
    words += [f"--only {only}" for only in manifest.get("only") or []]
    words += ["--engine here"] if campaign.place == "host" else []
    words += [f"--kernel {kernel}"] if (kernel := manifest.get("kernel_wanted")) else []
    return " ".join(words)


def rounded(value: float | None) -> float | None:
    """Six significant digits."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def load(path: Path) -> dict[Key, Record]:
    """The published records, if any."""
    known = lines.read(path).splitlines() if path.exists() else []
    return {key(record): record for record in map(json.loads, known)}


def save(path: Path, found: dict[Key, Record]) -> None:
    """Replaces the file at once.  A cell measured again keeps its line, so tables keep their
    order."""
    texts = [json.dumps(record, separators=(",", ":")) for record in found.values()]
    lines.replace(path, "".join(f"{text}\n" for text in texts))
