"""`tcpilot watch` on the bottleneck's device: how the script starts it, and ends it."""

from __future__ import annotations

from tcplab.engine import topology
from tcplab.scenario.model import Cell

FILES = ("watch.bin", "watch.jsonl")
"""What it leaves: rounds and intervals (docs/watch.md), and a line per flow and second."""

# Its first line says that it is attached.  ip becomes the program, so that $! is its number.
_START = """\
step watch "tcpilot watch"
ip netns exec {namespace} "$tcpilot" watch {device} --record watch.bin --json {options} \\
    >watch.jsonl 2>watch.err &
watch=$!
await watch.jsonl totals watch.err"""

_STOP = """\
kill -INT $watch
wait $watch || fail "tcpilot watch: $(tail -n 1 watch.err)\""""


def start(cell: Cell) -> list[str]:
    """Lines that start it; they return when it sees packets."""
    if not cell.watch.record:
        return []
    namespace, device = topology.bottleneck(cell, 0)
    words = {"namespace": namespace, "device": device, "options": cell.watch.options}
    return [_START.format(**words)]


def stop(cell: Cell) -> list[str]:
    """Lines that end it; what it measured is in the cell's folder then."""
    return [_STOP] if cell.watch.record else []
