"""Many destinations behind one device: a class for each, found by its address in one step.

HTB is used because its leaves may delay packets.  u32 looks the last byte of the address up in a
table of 256 lists, so the number of destinations costs a packet nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcplab.scenario.destinations import Destination
from tcplab.scenario.model import Link

UNLIMITED = "rate 32gbit burst 1mb cburst 1mb quantum 60000"
_FORMS = {
    4: ("ip", "ip", "198.18.0.0/15", 16, 32),
    6: ("ipv6", "ip6", "2001:db8::/32", 36, 128),
}
"""For tc by IP's version: protocol, its name in u32, all destinations, the place of the
destination's last four bytes in the header, and the length of an address."""


def classes(device: str, root: str) -> list[str]:
    """The root with a class for the rest."""
    return [
        f"qdisc add dev {device} root handle {root} htb default 1",
        f"class add dev {device} parent {root} classid {root}1 htb {UNLIMITED}",
    ]


def classifier(device: str, root: str, found: Sequence[tuple[Destination, int]]) -> list[str]:
    """Filters to send each destination to its class."""
    lines: list[str] = []
    for priority, version in enumerate((4, 6), 1):
        chosen = [(one, minor) for one, minor in found if _version(one) == version]
        if chosen:
            lines += _table(device, root, priority, version, chosen)
    return lines


def _version(one: Destination) -> int:
    return 6 if ":" in one.address else 4


def _table(
    device: str,
    root: str,
    priority: int,
    version: int,
    chosen: Sequence[tuple[Destination, int]],
) -> list[str]:
    protocol, name, everything, at, length = _FORMS[version]
    table = f"{priority}00"
    head = f"filter add dev {device} parent {root} protocol {protocol} prio {priority}"
    key = f"hashkey mask 0x000000ff at {at}"
    lines = [
        f"{head} handle {table}: u32 divisor 256",
        f"{head} u32 match {name} dst {everything} {key} link {table}:",
    ]
    for one, minor in chosen:
        last = int(one.address.rpartition(":")[2], 16) if version == 6 else _last_byte(one)
        match = f"match {name} dst {one.address}/{length} flowid {root}{minor:x}"
        lines.append(f"{head} u32 ht {table}:{last & 0xFF:x}: {match}")
    return lines


def _last_byte(one: Destination) -> int:
    return int(one.address.rpartition(".")[2])


def shaped(link: Link, one: Destination) -> Link:
    """The link as a destination sees it."""
    return replace(
        link,
        rate_mbit=one.rate_mbit if one.rate_mbit is not None else link.rate_mbit,
        rtt_ms=link.rtt_ms if one.rtt_ms is None else one.rtt_ms,
        loss_percent=link.loss_percent if one.loss_percent is None else one.loss_percent,
    )
