"""Published cells: a JSON line for each good cell of a campaign, and the page made of them.

A line names its origin: the command, the commit, the kernel and the seed that make it again.  A
study adds its figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tcplab.results import windows
from tcplab.results.read import Campaign, Cell, ResultsError, read_campaign
from tcplab.studies import lines

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Campaign, place and cell."""
_MEASURED = Path(__file__).parents[3] / "docs" / "measured"
_DIGITS = 6


def good(folder: Path, quick: bool = False) -> Iterator[tuple[Campaign, Cell]]:
    """The good cells of a campaign, which may have been broken off; of a quick form only if asked
    for.

    Raises ResultsError for cells that nobody could make again: of files that differed from their
    commit.
    """
    campaign = read_campaign(folder)
    manifest = campaign.manifest
    if manifest["dirty"] or not manifest["commit"]:
        raise ResultsError(f"{folder}: of files that are in no commit")
    if manifest["quick"] and not quick:
        raise ResultsError(f"{folder}: a quick form")
    for cell in campaign.cells():
        # Older results have no verdict on their windows.
        if cell.status == "ok" and windows.largest(cell.samples()) <= windows.MOST_PACKETS:
            yield campaign, cell


def name(campaign: Campaign, cell: Cell) -> str:
    """A cell's name: without its number, which depends on the part of the campaign that ran."""
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


def published(study: str) -> Path:
    """The file of a study's records."""
    return _MEASURED / "data" / f"{study}.jsonl.xz"


def page(study: str) -> Path:
    """The page that is made of them."""
    return _MEASURED / f"{study}.md"


def load(path: Path) -> dict[Key, Record]:
    """Those that were published; none if nothing was."""
    known = lines.read(path).splitlines() if path.exists() else []
    return {key(record): record for record in map(json.loads, known)}


def save(path: Path, found: dict[Key, Record]) -> None:
    """Replaces the file at once.  A cell that is measured again keeps its line, so that tables keep
    their order."""
    texts = [json.dumps(record, separators=(",", ":")) for record in found.values()]
    lines.replace(path, "".join(f"{text}\n" for text in texts))


def publish(
    study: str,
    folders: Sequence[Path],
    of_campaign: Callable[[Path], list[Record]],
    renewed: Callable[[str, list[Record]], str],
) -> None:
    """Takes the cells of these folders into a study's records, and makes its page anew."""
    known = load(published(study))
    for folder in folders:
        known |= {key(record): record for record in of_campaign(folder)}
    save(published(study), known)
    text = page(study).read_text(encoding="utf-8")
    page(study).write_text(renewed(text, list(known.values())), encoding="utf-8")


def main(
    study: str,
    of_campaign: Callable[[Path], list[Record]],
    renewed: Callable[[str, list[Record]], str],
) -> int:
    """The command of a study that does nothing else."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tcplab.studies.{study}",
        description=f"Puts campaigns' cells into {published(study).name}, and their tables into "
        f"{page(study).name}, both in docs/measured.",
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="*",
        type=Path,
        help="results, also of a campaign that was broken off; without one the page is made anew",
    )
    publish(study, parser.parse_args().folders, of_campaign, renewed)
    return 0
