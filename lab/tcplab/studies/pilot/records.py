"""Records of experiments: where runs leave them, and which of them documents are made from.

A record is one JSON object on one line, with its provenance.  Runs write a file each into a folder
that git ignores; `publish` copies from there what may be relied on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def save(folder: Path, record: Record) -> Path:
    """Keeps the record of a run."""
    path = folder / f"{record['experiment']}.jsonl"
    path.write_text(_line(record))
    return path


def load(path: Path) -> dict[str, Record]:
    """Records by experiment, in the order of the names: of a file, or of all files of a folder."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    lines = [line for file in files for line in file.read_text().splitlines() if line]
    found = {record["experiment"]: record for record in map(json.loads, lines)}
    return dict(sorted(found.items()))


def faults(record: Record) -> list[str]:
    """Why nobody can make this record again from its commit and command; empty if they can."""
    found = []
    if record["commit"] == "unknown":
        found.append("the commit is not known")
    if record["commit"].endswith("+"):
        found.append("files differed from the commit")
    if "--quick" in record["command"].split():
        found.append("the quick form")
    return found


def publish(target: Path, records: Iterable[Record]) -> dict[str, list[str]]:
    """Puts records into `target` in place of older ones of the same experiments.

    Those with faults stay out; returns them with their faults.
    """
    known = load(target) if target.exists() else {}
    refused = {}
    for record in records:
        if wrong := faults(record):
            refused[str(record["experiment"])] = wrong
        else:
            known[record["experiment"]] = record
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".new")
    temporary.write_text("".join(_line(known[name]) for name in sorted(known)))
    temporary.replace(target)
    return refused


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
