"""Takes apart what a machine printed: "@@ {label}", then the text below it.

Labels say what was measured, with which tool, in which round; the text is JSON lines of
flowgen and tcpilot, or another program's own output.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_MARK = "@@ "


@dataclass(frozen=True)
class Section:
    label: dict[str, Any]
    text: str

    def json_lines(self) -> list[Any]:
        """Every line that is a JSON object or array; the others are somebody's remarks."""
        return [json.loads(line) for line in self.text.splitlines() if line[:1] in ("{", "[")]

    def json(self) -> Any:
        """The one JSON value of the section, which may span lines.  ValueError if there is none."""
        return json.loads(self.text)

    def matches(self, **wanted: Any) -> bool:
        return all(self.label.get(key) == value for key, value in wanted.items())


def parse(output: str) -> list[Section]:
    """The sections in their order; what stands before the first is dropped."""
    sections = []
    for block in ("\n" + output).split("\n" + _MARK)[1:]:
        label, _, text = block.partition("\n")
        sections.append(Section(json.loads(label), text.strip()))
    return sections


def select(sections: Iterable[Section], **wanted: Any) -> Iterator[Section]:
    return (section for section in sections if section.matches(**wanted))


def first(sections: Iterable[Section], **wanted: Any) -> Section:
    """The first section with these label entries; KeyError says which is missing."""
    for section in select(sections, **wanted):
        return section
    raise KeyError(f"the machine's output lacks {wanted}")
