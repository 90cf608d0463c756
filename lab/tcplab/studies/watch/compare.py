"""Ours, P4air's rules and its published figures: the table of docs/use/watch.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from tcplab.studies.watch.features import GROUP_OF
from tcplab.studies.watch.judge import Outcome, wilson

OPERATING_POINT = re.compile(r"^12 Mbit/s, \d+ ms, 100 packets, 1 flow$")
"""1000 packets/s, 100 packets of queue, 50 to 150 ms: Turkovic & Kuipers, ICNP 2020."""

PUBLISHED = {
    "reno": ("30 %", "297"),
    "bic": ("80 %", "258"),
    "cubic": ("99 to 100 %", "60"),
    "highspeed": ("99 to 100 %", ""),
    "htcp": ("99 to 100 %", "52"),
    "hybla": ("0 %", ""),
    "westwood": ("", "124"),
    "vegas": ("99 to 100 %", ""),
    "lola": ("99 to 100 %", ""),
    "veno": ("", "135"),
    "illinois": ("", "192"),
    "bbr": ("99 to 100 %", "48"),
}
"""Accuracy and detection delay in round trips, as far as the paper gives them by algorithm."""


def at_operating_point(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if OPERATING_POINT.match(o.path)]


def _right(outcomes: Sequence[Outcome]) -> str:
    n, right = len(outcomes), sum(o.is_right for o in outcomes)
    low, high = wilson(right, n)
    return f"{right} of {n} ({low:.0%} to {high:.0%})" if n else "-"


def _delay(outcomes: Sequence[Outcome]) -> str:
    delays = [o.delay for o in outcomes if o.delay is not None]
    return f"{median(delays):g}" if delays else "-"


def table(p4air: Sequence[Outcome], ours: Sequence[Outcome]) -> str:
    """Markdown: a row per algorithm, then all."""
    lines = [
        "| algorithm | published | delay | P4air's rules at its point | everywhere | delay "
        "| ours at its point | everywhere | unknown | by name | delay |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in GROUP_OF:
        theirs = [o for o in p4air if o.algorithm == name]
        mine = [o for o in ours if o.algorithm == name]
        if mine:
            lines.append(_row(name, PUBLISHED.get(name, ("", "")), theirs, mine))
    lines.append(_row("all", ("about 86 %", ""), p4air, ours))
    return "\n".join(lines) + "\n"


def _row(
    name: str, published: tuple[str, str], theirs: Sequence[Outcome], mine: Sequence[Outcome]
) -> str:
    unknown = sum(o.group == "unknown" for o in mine) / len(mine)
    named = sum(o.name == o.algorithm for o in mine) / len(mine)
    cells = [
        name,
        *published,
        _right(at_operating_point(theirs)),
        _right(theirs),
        _delay(theirs),
        _right(at_operating_point(mine)),
        _right(mine),
        f"{unknown:.0%}",
        f"{named:.0%}",
        _delay(mine),
    ]
    return "| " + " | ".join(cells) + " |"
