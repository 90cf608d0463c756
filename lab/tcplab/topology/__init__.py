"""The emulated path as arguments of `ip -batch` and `tc -batch`: pure functions of a cell.

places.py names its parts, wires.py joins them, queues.py has the bottlenecks, impair.py delays and
losses, relay.py the same on a kernel without netem, many.py the wires of many destinations,
changes.py the changes under way.
"""

from __future__ import annotations

from tcplab.scenario.destinations import destinations
from tcplab.scenario.model import Cell, back_of, second_of
from tcplab.topology.changed import links_over_time
from tcplab.topology.changes import change_lines
from tcplab.topology.impair import arguments as netem_arguments
from tcplab.topology.impair import netem_lines, netems, removals
from tcplab.topology.many import shaped
from tcplab.topology.places import (
    FAIR_HANDLE,
    NAMESPACES,
    NETEM_HANDLE,
    QDISC_HANDLE,
    back_bottleneck,
    bottleneck,
    destination,
    far_device,
    is_direct,
    last_router,
    namespaces,
    owner,
    receiver_address,
    receiver_device,
    rtts_ms,
    second_bottleneck,
    sender_address,
    sender_router,
    versions,
    with_port,
)
from tcplab.topology.queues import bottleneck_lines, destination_lines, has_intake, intake_lines
from tcplab.topology.relay import (
    DESTINATIONS,
    RELAY,
    follows_time,
    has_relay,
    is_relayed,
    joins,
    relay_destinations,
    relay_links,
    trace_file,
)
from tcplab.topology.relay import obstacle as relay_obstacle
from tcplab.topology.wires import ip_lines, mptcp_lines, sender_addresses

__all__ = [
    "DESTINATIONS",
    "FAIR_HANDLE",
    "NAMESPACES",
    "QDISC_HANDLE",
    "RELAY",
    "back_bottleneck",
    "bottleneck",
    "bottleneck_lines",
    "change_lines",
    "destination",
    "far_device",
    "follows_time",
    "has_queue",
    "has_relay",
    "ip_lines",
    "is_direct",
    "is_relayed",
    "joins",
    "last_router",
    "links_over_time",
    "mptcp_lines",
    "namespaces",
    "netem_arguments",
    "netems",
    "owner",
    "queue_handle",
    "queue_places",
    "receiver_address",
    "receiver_device",
    "relay_destinations",
    "relay_links",
    "relay_obstacle",
    "removed",
    "rtts_ms",
    "second_bottleneck",
    "sender_address",
    "sender_addresses",
    "shaped",
    "tc_lines",
    "trace_file",
    "versions",
    "with_port",
]


def has_queue(cell: Cell, link: int) -> bool:
    """Whether there is a qdisc whose counters are those of the bottleneck, and of no other link."""
    if cell.links[link].trace or cell.links[link].shares:
        return False
    return not is_direct(cell.links[link]) or any(one.arguments for one in netems(cell, link))


def queue_handle(cell: Cell, link: int) -> int:
    """Its handle."""
    if cell.watch.fair and not link:
        return FAIR_HANDLE
    return NETEM_HANDLE if is_direct(cell.links[link]) else QDISC_HANDLE


def queue_places(cell: Cell) -> list[tuple[str, str, str, int]]:
    """Name, namespace, device and handle of every queue whose counters are read: of link `core`
    there may be `core/second` and `core/back` too."""
    found = []
    for i, link in enumerate(cell.links):
        if has_queue(cell, i):
            found.append((link.name, *bottleneck(cell, i), queue_handle(cell, i)))
        if link.second_rate_mbit:
            found.append((f"{link.name}/second", *second_bottleneck(i), QDISC_HANDLE))
        if link.back_rate_mbit:
            found.append((f"{link.name}/back", *back_bottleneck(i), QDISC_HANDLE))
    return found


def _own_rates(cell: Cell) -> bool:
    return any(one.rate_mbit is not None for one in destinations(cell))


def tc_lines(cell: Cell) -> dict[str, list[str]]:
    """Arguments of `tc -batch` by namespace."""
    lines: dict[str, list[str]] = {"r1": [], "r2": []}
    for i, link in enumerate(cell.links):
        if not is_direct(link):
            for namespace, found in _bottlenecks(cell, i):
                lines.setdefault(namespace, []).extend(found)
            lines["r1"] += intake_lines(link, sender_router(i)[1])
        for namespace, found in netem_lines(cell, i).items():
            lines.setdefault(namespace, []).extend(found)
    return lines


def _bottlenecks(cell: Cell, i: int) -> list[tuple[str, list[str]]]:
    """Namespace and lines of each bottleneck of a link, on the way out and back."""
    link = cell.links[i]
    namespace, device = bottleneck(cell, i)
    if link.trace or link.shares:
        found = []
    elif i == 0 and _own_rates(cell):
        many = [one for one in destinations(cell) if one.rate_mbit is not None]
        found = [(namespace, destination_lines(link, device, many))]
    else:
        found = [(namespace, bottleneck_lines(link, device))]
    if link.second_rate_mbit:
        where, device = second_bottleneck(i)
        found.append((where, bottleneck_lines(second_of(link), device)))
    if link.back_rate_mbit:
        where, device = back_bottleneck(i)
        found.append((where, bottleneck_lines(back_of(link), device)))
    return found


def removed(cell: Cell) -> list[tuple[str, str, str]]:
    """Namespace, device and qdisc (`root`, `clsact`) to remove before the queues are recreated."""
    found: list[tuple[str, str, str]] = []
    for i, link in enumerate(cell.links):
        if not is_direct(link) and not link.trace and not link.shares:
            found.append((*bottleneck(cell, i), "root"))
        if link.second_rate_mbit:
            found.append((*second_bottleneck(i), "root"))
        if link.back_rate_mbit:
            found.append((*back_bottleneck(i), "root"))
        if has_intake(link):
            found.append((*sender_router(i), "clsact"))
        found += [(namespace, device, "root") for namespace, device in removals(cell, i)]
    return found
