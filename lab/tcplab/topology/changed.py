"""A link's properties after each change of the schedule."""

from __future__ import annotations

from dataclasses import replace

from tcplab.scenario.model import Cell, Change, Link

_KEYS = ("rate_mbit", "rtt_ms", "jitter_ms", "loss_percent", "loss_burst_packets", "queue")


def changed(link: Link, change: Change) -> Link:
    """The link after a change."""
    given = {key: getattr(change, key) for key in _KEYS if getattr(change, key) is not None}
    return replace(link, **given)


def links_over_time(cell: Cell, link: int) -> list[tuple[float, Link]]:
    """The link after each of its own changes, with the time of the change in seconds."""
    now, found = cell.links[link], []
    for change in sorted(cell.changes, key=lambda c: c.at_s):
        if change.link == now.name:
            now = changed(now, change)
            found.append((change.at_s, now))
    return found
