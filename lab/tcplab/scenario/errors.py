"""What is wrong with a scenario, with file and line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

Place = tuple[str | int, ...]
"""Keys and list positions from the top of the file, such as ("link", 0, "rate_mbit")."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    place: Place
    text: str


class ScenarioError(Exception):
    """A scenario that cannot be run; each line says file, line and what to do."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def located(path: Path, line: int | None, text: str) -> str:
    """`text` as compilers print it."""
    return f"{path}:{line}: {text}" if line else f"{path}: {text}"
