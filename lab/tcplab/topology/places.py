"""Names of the emulated path's parts: namespaces, devices, addresses, handles.

    left ── r1 ══ bottleneck ══ r2 ── netem ── right           per link; the namespaces are shared
    left ── r1 ══ bottleneck ══ r2 ══ second ══ r3 ── netem ── right
    left ── netem ── right                                     a direct path, offloads as they come

The sender's part of a round trip is a netem on r1's way to left, or a relay there.

Link i has the networks 10.(i+1).1/24 (left), 10.(i+1).2/24 and 10.(i+1).3/24 (between the routers),
10.(i+1).4/24 (left, if a relay delays its answers) and, one for each round-trip time,
10.(i+1).(10+k)/24 (right); of IPv6 likewise fd00:(i+1):N::/64.
Impairments are in the middle, never on the end hosts: netem on a sender would break its
back-pressure.  Both ends send one segment per packet (on veth this is the meaning of "offloads
off").
"""

from __future__ import annotations

from tcplab.scenario.model import Cell, Flow, Link

NAMESPACES = ("left", "r1", "r2", "r3", "right")
SHAPER_HANDLE = 1
QDISC_HANDLE = 0x10
SFQ_HANDLE = 0x20
NETEM_HANDLE = 0x30
FAIR_HANDLE = 0x7C2
"""Handle of the root qdisc of `tcpilot watch --fair` (crates/watch/src/fair)."""


def rtts_ms(cell: Cell) -> list[float]:
    """The different additional round trips, one branch to the right for each."""
    return sorted({flow.extra_rtt_ms for flow in cell.flows})


def network(link: int, which: int, version: int = 4) -> str:
    """One of a link's networks, without the host and the length."""
    return f"10.{link + 1}.{which}." if version == 4 else f"fd00:{link + 1:x}:{which:x}::"


def sender_address(link: int, version: int = 4) -> str:
    return f"{network(link, 1, version)}1"


def receiver_address(link: int, branch: int, version: int = 4) -> str:
    return f"{network(link, 10 + branch, version)}2"


def with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def versions(cell: Cell) -> tuple[int, ...]:
    """The flows' versions of IP; the path itself is measured by version 4."""
    return (4, 6) if any(flow.ip == 6 for flow in cell.flows) else (4,)


def is_direct(link: Link) -> bool:
    return link.path == "direct"


def namespaces(cell: Cell) -> tuple[str, ...]:
    """A cell's namespaces."""
    third = any(link.second_rate_mbit for link in cell.links)
    return tuple(name for name in NAMESPACES if third or name != "r3")


def owner(cell: Cell, link: int) -> int:
    """The link whose bottleneck this one's packets cross: its own, unless it shares another's."""
    shared = cell.links[link].shares
    return [one.name for one in cell.links].index(shared) if shared else link


def bottleneck(cell: Cell, link: int) -> tuple[str, str]:
    """Namespace and device of a link's queue."""
    link = owner(cell, link)
    at_host = cell.links[link].place == "host" or is_direct(cell.links[link])
    return ("left", f"l{link}") if at_host else ("r1", f"b{link}")


def second_bottleneck(link: int) -> tuple[str, str]:
    return "r2", f"c{link}"


def back_bottleneck(link: int) -> tuple[str, str]:
    """On the way back: the second router's way to the first."""
    return "r2", f"n{link}"


def sender_router(link: int) -> tuple[str, str]:
    """The first router's device to the sender: packets come in here, and answers leave."""
    return "r1", f"m{link}"


def answers_way(link: int) -> tuple[str, str]:
    """Devices of the first router and of the sender, with a relay for answers between them."""
    return f"z{link}", f"a{link}"


def last_router(link: Link) -> str:
    """The router before the receiver."""
    return "r3" if link.second_rate_mbit else "r2"


def far_device(link: int, branch: int) -> str:
    return f"f{link}x{branch}"


def receiver_device(link: int, branch: int) -> str:
    return f"r{link}x{branch}"


def destination(cell: Cell, flow: Flow) -> str:
    """A flow's destination address: over the first link, on the branch of its round trip."""
    return receiver_address(0, rtts_ms(cell).index(flow.extra_rtt_ms), flow.ip)
