"""Mistakes of a scenario, with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Place = tuple[str | int, ...]
"""Keys and list positions from the top of the file, such as ("link", 0, "rate_mbit")."""


Rule = tuple[str, tuple[str | Place, ...], Callable[[Any, Any], str | None]]
"""The key to blame, the rule's other keys (in the same table by name, in others by place), and a
function returning the mistake in the cell and the table, if any."""


@dataclass(frozen=True)
class Problem:
    """One mistake, and its place."""

    place: Place
    text: str
    spoils: tuple[Place, ...] = ()
    """Further keys unknown because of it: the intended name of a misspelled key."""


class Unknown:
    """Keys whose values are not known, because the file has mistakes there.

    A check of one of them would only repeat the mistake in other words.
    """

    def __init__(self, problems: list[Problem], keys: Iterable[str] = ()) -> None:
        self._places = {place for p in problems for place in p.spoils or (p.place,)}
        self._keys = set(keys)
        """Names of keys unknown in every table: a broken sweep was to set them."""

    def has(self, place: Place) -> bool:
        """Whether this place, or a table around it, is unknown."""
        around = any(place[:length] in self._places for length in range(1, len(place) + 1))
        return around or place[-1] in self._keys


class ScenarioError(Exception):
    """An invalid scenario; each line has file, line and remedy."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def located(path: Path, line: int | None, text: str) -> str:
    """`text` as compilers print it."""
    return f"{path}:{line}: {text}" if line else f"{path}: {text}"
