"""Lines of keys in a TOML file: tomllib gives a file's content, without lines."""

from __future__ import annotations

import re

from tcplab.scenario.errors import Place

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]")
_KEY = re.compile(
    r"""^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*="""
)
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


def index(text: str) -> dict[Place, int]:
    """The line (from 1) of every table and key.  Keys inside inline values are not listed."""
    lines: dict[Place, int] = {}
    table: Place = ()
    counts: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header and "=" not in line.split("#")[0]:
            name = _parts(header[2])
            if header[1] == "[[":
                outer = _with_positions(name[:-1], counts)
                counts[(*outer, name[-1])] = counts.get((*outer, name[-1]), -1) + 1
            table = _with_positions(name, counts)
            lines.setdefault(table, number)
            lines.setdefault(_with_positions(name[:1], counts)[:1], number)
            continue
        key = _KEY.match(line)
        if key:
            place: Place = (*table, *_parts(key[1]))
            lines.setdefault(place, number)
    return lines


def line_of(lines: dict[Place, int], place: Place) -> int | None:
    """The line of `place`, or of the nearest thing around it."""
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def _parts(dotted: str) -> Place:
    return tuple(a or b or c for a, b, c in _PART.findall(dotted))


def _with_positions(name: Place, counts: dict[Place, int]) -> Place:
    """A table's name with the position of each list on the way."""
    place: Place = ()
    for part in name:
        place = (*place, part)
        if place in counts:
            place = (*place, counts[place])
    return place
