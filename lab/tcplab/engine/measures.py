"""What a cell measures of its tuner: runs and time of its programs, and its memory."""

from __future__ import annotations

from tcplab.engine.places import CGROUP
from tcplab.scenario.model import Cell

PROGRAMS = "programs.csv"
"""flowgen's samples of the programs."""
MEMORY = "memory.jsonl"
"""Resident and peak kB of the tuner's process: idle, full (after traffic), and after queries."""


def sampled_programs(cell: Cell) -> str:
    """Further words of `flowgen play`.  In the sender's namespace /sys is another, so that the
    cgroup is handed over open."""
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
