"""Measures of a cell in addition to its traffic: runs and time of the tuner's programs, its memory,
and the time of all processors."""

from __future__ import annotations

from pathlib import Path

from tcplab.engine.places import CGROUP
from tcplab.scenario.model import Cell

PROGRAMS = "programs.csv"
"""flowgen's samples of the programs."""
MEMORY = "memory.jsonl"
"""Resident and peak kB of the tuner's process: idle, full (after traffic), and after queries."""


def sampled_programs(cell: Cell) -> str:
    """Further words of `flowgen play`.  The sender's namespace has another /sys, so the cgroup is
    handed over open."""
    return f' --programs /proc/self/fd/9 9<"{CGROUP}"' if cell.measure.programs else ""


def start(cell: Cell) -> list[str]:
    """Lines before the traffic."""
    return [_RESIDENT, "resident idle"] if cell.measure.memory else []


def stop(cell: Cell) -> list[str]:
    """Lines after it."""
    if not cell.measure.memory:
        return []
    queries = [_QUERIES, "resident queries"] if cell.tuner.name == "tcpilot" else []
    return [f"sleep {cell.measure.settle_s:g}", "resident full", *queries]


def processor(cell: Cell, when: str) -> list[str]:
    """The line to save the processors' times, `before` the traffic and `after` it."""
    return [f"head -n 1 /proc/stat >processor-{when}"] if cell.measure.processor else []


_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of /proc/stat: proc(5)."""
_TICK_S = 0.01


def processor_s(work: Path) -> dict[str, float] | None:
    """Seconds of all processors in each state, from a script's folder; None if not measured."""
    files = [work / f"processor-{when}" for when in ("before", "after")]
    if not all(file.exists() for file in files):
        return None
    before, after = ([int(word) for word in file.read_text().split()[1:9]] for file in files)
    spent = (new - old for old, new in zip(before, after, strict=True))
    return {name: round(_TICK_S * n, 2) for name, n in zip(_STATES, spent, strict=True)}


_RESIDENT = f"""\
resident() {{
    while read -r name kb _; do
        case $name in VmRSS:) rss=$kb ;; VmHWM:) peak=$kb ;; esac
    done </proc/$tuner/status
    echo "{{\\"at\\": \\"$1\\", \\"rss_kb\\": $rss, \\"peak_kb\\": $peak}}" >>{MEMORY}
}}"""

_QUERIES = """\
for n in 1 2 3 4 5; do
    for question in paths status; do
        "$tcpilot" $question --json --socket /run/tcplab.sock >/dev/null || fail "$question"
    done
done"""
