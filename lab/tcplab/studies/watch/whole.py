"""The whole recordings, from this repository's history: `python -m tcplab.studies.watch whole`.

The tree has small tables of them (shrink.py).  `remake` makes the shipped model of recordings from
the whole ones, byte for byte, and the small tables.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tcplab.studies.watch import figures, kept, shrink, train

LIST = figures.DATA / "watch-whole.json"
"""Each file's blob in git, its SHA-256, and its campaigns."""
FOLDER = Path(__file__).parents[4] / ".cache" / "watch"


class MissingError(Exception):
    """A file is not in this clone's history, or has changed."""


def restore(folder: Path = FOLDER) -> list[Path]:
    """The files; existing ones are not written again.  Raises MissingError."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_restored(folder / name, entry) for name, entry in sorted(_listed().items())]


def _listed() -> dict[str, dict[str, str]]:
    return dict(json.loads(LIST.read_text()))


def _restored(path: Path, entry: dict[str, str]) -> Path:
    if path.exists() and _digest(path.read_bytes()) == entry["sha256"]:
        return path
    command = ["git", "-C", str(LIST.parent), "cat-file", "blob", entry["blob"]]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        why = done.stderr.decode().strip()
        raise MissingError(f"{path.name}: {why}; run: git fetch --unshallow")
    if _digest(done.stdout) != entry["sha256"]:
        raise MissingError(f"{path.name}: its content is not that which was listed")
    path.write_bytes(done.stdout)
    return path


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def remake(say: Callable[[str], None], folder: Path = FOLDER) -> list[str]:
    """Trains the model and makes the small tables from the whole ones; returns those that differ
    from the tree."""
    files = restore(folder)
    samples = [path for path in files if "samples" in path.name]
    wrong = []
    say("training")
    rows = train.together([pd.read_parquet(path) for path in samples])
    model = train.as_json(train.fit(rows, seed=train.SEED))
    shipped = train.read(figures.MODELS / figures.OF_PAGE[0])
    shipped.pop("calibration", None)  # by recordings of its own
    if model != shipped:
        wrong.append(figures.OF_PAGE[0])
    say("shrinking")
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / figures.ROUNDS.name, Path(place) / figures.SAMPLES.name
        shrink.rounds(folder, made[0])
        shrink.samples(samples, made[1])
        for new, old in zip(made, (figures.ROUNDS, figures.SAMPLES), strict=True):
            if not kept.read(new).equals(kept.read(old)):
                wrong.append(old.name)
    return wrong
