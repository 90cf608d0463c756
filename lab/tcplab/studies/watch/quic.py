"""How well flows of QUIC are recognised, apart from TCP's: with and without the spin bit, alone and
among others."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tcplab.studies.watch.judge import Outcome, wilson
from tcplab.studies.watch.traces import Trace

SPIN = 256
"""TP_FLOW_SPIN: a flag."""


def spins(trace: Trace) -> bool:
    """Whether the spin bit showed most of its rounds."""
    return bool((trace.flow.rounds["flags"] & SPIN != 0).mean() > 0.5)


def table(found: Sequence[Trace], outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row for each kind of flow."""
    pairs = list(zip(found, outcomes, strict=True))
    alone = ", 1 flow"
    rows = {
        "rounds by the spin bit": [o for t, o in pairs if spins(t)],
        "rounds by handshake and queue": [o for t, o in pairs if not spins(t)],
        "alone": [o for o in outcomes if o.path.endswith(alone)],
        "beside others": [o for o in outcomes if not o.path.endswith(alone)],
        "all": list(outcomes),
    }
    lines = [
        "| | flows | right | 95 % interval | unknown | by name | 95 % interval | delay "
        "| falsely certain |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(name, mine) for name, mine in rows.items() if mine),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, mine: Sequence[Outcome]) -> str:
    n, right = len(mine), sum(o.is_right for o in mine)
    named = sum(o.name == o.algorithm for o in mine)
    unknown = sum(o.group == "unknown" for o in mine)
    delays = [o.delay for o in mine if o.delay is not None]
    (low, high), (named_low, named_high) = wilson(right, n), wilson(named, n)
    return (
        f"| {name} | {n} | {right / n:.0%} | {low:.0%} to {high:.0%} | {unknown / n:.0%} "
        f"| {named / n:.0%} | {named_low:.0%} to {named_high:.0%} "
        f"| {f'{median(delays):g}' if delays else '-'} "
        f"| {sum(o.is_falsely_certain for o in mine)} |"
    )
