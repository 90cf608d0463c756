"""The schedule of changes as arguments of `tc -batch`."""

from __future__ import annotations

from dataclasses import replace

from tcplab.scenario.model import Cell, Link
from tcplab.topology.changed import changed
from tcplab.topology.impair import netems
from tcplab.topology.places import QDISC_HANDLE, SHAPER_HANDLE, bottleneck
from tcplab.topology.queues import qdisc, shaper


def change_lines(cell: Cell) -> list[tuple[float, str, str]]:
    """When, in which namespace, and tc's arguments, for every change of the schedule."""
    names = [link.name for link in cell.links]
    now = cell
    found: list[tuple[float, str, str]] = []
    for change in sorted(cell.changes, key=lambda c: c.at_s):
        i = names.index(change.link)
        before, after = now.links[i], changed(now.links[i], change)
        links = (*now.links[:i], after, *now.links[i + 1 :])
        old, now = netems(now, i), replace(now, links=links)
        namespace, device = bottleneck(cell, i)
        what = [(namespace, line) for line in _queue_lines(before, after, device)]
        for one, new in zip(old, netems(now, i), strict=True):
            if new != one:
                what.append((new.namespace, new.line("replace")))
        found += [(change.at_s, where, line) for where, line in what]
    return found


def _queue_lines(before: Link, after: Link, device: str) -> list[str]:
    """Rate and length of the queue; a queue in units of time or BDP grows with them only if the
    change says so."""
    lines = []
    if after.rate_mbit != before.rate_mbit:
        if after.qdisc == "cake":
            rate = f"{round((after.rate_mbit or 0) * 1e6)}bit"
            return [
                f"qdisc change dev {device} root handle {QDISC_HANDLE:x}: cake bandwidth {rate}"
            ]
        head = f"qdisc change dev {device} root handle {SHAPER_HANDLE}:"
        lines.append(f"{head} {shaper(after)}")
    if after.queue != before.queue:
        where = f"parent {SHAPER_HANDLE}:1" if after.rate_mbit else "root"
        handle = f"handle {QDISC_HANDLE:x}:"
        lines.append(f"qdisc change dev {device} {where} {handle} {qdisc(after)}")
    return lines
