"""pathrelay: on a kernel without netem a pair of TUN devices in place of the last veth pair, with a
delay between them; and in place of the bottleneck, with a rate from a trace."""

from __future__ import annotations

from tcplab.scenario.destinations import destinations
from tcplab.scenario.model import Cell, Link, before_ms, behind_ms, queue_bytes
from tcplab.topology.changed import links_over_time
from tcplab.topology.many import shaped
from tcplab.topology.places import (
    answers_way,
    far_device,
    is_direct,
    last_router,
    owner,
    receiver_device,
    rtts_ms,
    second_bottleneck,
)

RELAY = "relay"
"""A value of `Cell.delays`."""
DESTINATIONS = "destinations"
"""A file in the cell's folder."""


def is_relayed(cell: Cell) -> bool:
    return cell.delays == RELAY


def obstacle(cell: Cell) -> str | None:
    """The part of a cell beyond pathrelay's abilities; None without one."""
    if any(change.jitter_ms for change in cell.changes):
        return "changes of jitter_ms"
    moves = any(change.rtt_ms for change in cell.changes)
    if moves and any(one.before_share for one in cell.links):
        return "changes of rtt_ms with before_share"
    found = (_obstacle(cell, link) for link in cell.links)
    return next((what for what in found if what), None)


def _obstacle(cell: Cell, link: Link) -> str | None:
    asked = {
        "jitter_ms": link.jitter_ms,
        "reorder_percent": link.reorder_percent,
        "back_loss_percent": link.back_loss_percent,
        "back_slot_ms": link.back_slot_ms,
        "receiver_gro_us behind a trace": link.receiver_gro_us and link.trace,
        "losses with receiver_gro_us": link.receiver_gro_us and _loses(cell, link),
    }
    return next((what for what, is_asked in asked.items() if is_asked), None)


def _loses(cell: Cell, link: Link) -> bool:
    """Whether packets are lost behind the bottleneck: joined ones would be lost together there."""
    ever = any(change.loss_percent for change in cell.changes if change.link == link.name)
    return bool(link.loss_percent or ever or any(f.destination_loss_percent for f in cell.flows))


def has_relay(cell: Cell) -> bool:
    """Whether pathrelay carries packets at all: for delay, or at a trace's rate."""
    return is_relayed(cell) or any(link.trace for link in cell.links)


def joins(cell: Cell) -> list[tuple[Link, tuple[str, str], tuple[str, str]]]:
    """Each link whose receiver joins packets: the pair of devices around it, each with its
    namespace.  A relay gets packets already joined before it, delayed as one: it has less to do,
    and the receiver gets the same."""
    found = []
    for i, link in enumerate(cell.links):
        if not link.receiver_gro_us:
            continue
        if is_relayed(cell):
            one = owner(cell, i)
            second = (second_bottleneck(i), ("r3", f"d{i}"))
            first = (("r1", f"b{one}"), ("r2", f"n{one}"))
            found.append((link, *(second if link.second_rate_mbit else first)))
            continue
        for k in range(len(rtts_ms(cell))):
            far = (last_router(link), far_device(i, k))
            found.append((link, far, ("right", receiver_device(i, k))))
    return found


def trace_file(link: int) -> str:
    """A file in the cell's folder."""
    return f"trace-{link}"


def relay_links(cell: Cell, seed: int) -> list[str]:
    """Values of pathrelay's --link: all delay is on the way to the right, as with netem, except the
    sender's part, which delays answers."""
    found = [
        f"near=r1/b{i},far=r2/n{i},trace={trace_file(i)},queue_bytes={queue_bytes(link)}"
        for i, link in enumerate(cell.links)
        if link.trace
    ]
    for i, link in enumerate(cell.links if is_relayed(cell) else ()):
        for k, extra_ms in enumerate(rtts_ms(cell)):
            near = f"{last_router(link)}/{far_device(i, k)}"
            near = f"left/l{i}" if is_direct(link) else near
            ends = f"near={near},far=right/{receiver_device(i, k)}"
            loss = _loss(link, ",") if link.loss_percent else ""
            changes = "".join(f",change={at_s:g}:{line}" for at_s, line in _changes(cell, i, k))
            delay_ms, own_seed = behind_ms(link) + extra_ms, seed + 64 * i + k
            many = f",destinations={DESTINATIONS}" if i == k == 0 and destinations(cell) else ""
            found.append(f"{ends},delay_ms={delay_ms:g}{loss},seed={own_seed}{changes}{many}")
        if link.before_share:
            near, far = answers_way(i)
            found.append(f"near=r1/{near},far=left/{far},delay_ms={before_ms(link):g}")
    return found


def relay_destinations(cell: Cell) -> list[str]:
    """Lines of the file of destinations: address, milliseconds, and the share of lost packets."""
    paths = [(one, shaped(cell.links[0], one)) for one in destinations(cell)]
    return [f"{one.address} {path.rtt_ms:g} {path.loss_percent / 100:g}" for one, path in paths]


def _loss(link: Link, separator: str) -> str:
    burst = f"{separator}burst={link.loss_burst_packets:g}" if link.loss_burst_packets > 1 else ""
    return f"{separator}loss={link.loss_percent / 100:g}{burst}"


def _changes(cell: Cell, i: int, k: int) -> list[tuple[float, str]]:
    """Times and new values on one branch of a link."""
    extra_ms = rtts_ms(cell)[k]
    return [
        (at_s, f"delay_ms={behind_ms(link) + extra_ms:g}{_loss(link, ':')}")
        for at_s, link in links_over_time(cell, i)
    ]


def follows_time(cell: Cell) -> bool:
    """Whether the relay must be told when the measured time begins."""
    return any(link.trace for link in cell.links) or (is_relayed(cell) and bool(cell.changes))
