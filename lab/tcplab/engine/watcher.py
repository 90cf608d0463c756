"""`tcpilot watch` on the bottleneck's device: how the script starts it, and ends it."""

from __future__ import annotations

from tcplab import topology
from tcplab.scenario.model import Cell

FILES = ("watch.bin", "watch.jsonl")
"""Its files: rounds and intervals (docs/use/watch.md), and a line per flow and second."""

# Its first line reports the attachment.  ip becomes the program, so $! is its number.
_START = """\
step watch "tcpilot watch"
ip netns exec {namespace} "$tcpilot" watch {device} --json {options} >watch.jsonl 2>watch.err &
watch=$!
await watch.jsonl totals watch.err"""

_STOP = """\
kill -INT $watch
wait $watch || fail "tcpilot watch: $(tail -n 1 watch.err)\""""


def is_wanted(cell: Cell) -> bool:
    return cell.watch.record or cell.watch.fair


def files(cell: Cell) -> tuple[str, ...]:
    """The cell's subset of FILES."""
    return FILES if cell.watch.record else FILES[1:] if cell.watch.fair else ()


def start(cell: Cell) -> list[str]:
    """Shell lines to start it; they return when it sees packets."""
    if not is_wanted(cell):
        return []
    namespace, device = topology.bottleneck(cell, 0)
    options = [cell.watch.options] if cell.watch.options else []
    before = []
    if cell.watch.record:
        options.append("--record watch.bin")
    if cell.watch.fair:
        options.append(f"--fair --rate {cell.links[0].rate_mbit:g}")
        before.append(f"tc -n {namespace} qdisc del dev {device} root")
    words = {"namespace": namespace, "device": device, "options": " ".join(options)}
    return [*before, _START.format(**words)]


def stop(cell: Cell) -> list[str]:
    """Shell lines to end it; its measures are in the cell's folder then."""
    return [_STOP] if is_wanted(cell) else []
