"""Bottlenecks as arguments of `tc -batch`: shaper, qdisc under test, and the rules before them."""

from __future__ import annotations

from tcplab.scenario.destinations import Destination
from tcplab.scenario.model import Link, burst_bytes, queue_bytes, queue_packets
from tcplab.topology.many import classes, classifier, shaped
from tcplab.topology.places import QDISC_HANDLE, SFQ_HANDLE, SHAPER_HANDLE

# A millisecond's worth of the rate may go out at once, two full packets at least.
_BURST_MS = 1.0
_LEAST_BURST_BYTES = 2 * 1514
_NEVER_LIMITS = "400gbit"
_ONE_PACKET_BYTES = 1600


def bottleneck_lines(link: Link, device: str) -> list[str]:
    """The shaper and the qdisc under test below it."""
    if link.qdisc == "cake":
        return [f"qdisc add dev {device} root handle {QDISC_HANDLE:x}: {_cake(link)}"]
    where, lines = "root", []
    if link.rate_mbit:
        where = f"parent {SHAPER_HANDLE}:1"
        lines.append(f"qdisc add dev {device} root handle {SHAPER_HANDLE}: {shaper(link)}")
    return [*lines, *below(link, device, where)]


def below(link: Link, device: str, where: str) -> list[str]:
    """The qdisc under test, and those below it."""
    lines = [f"qdisc add dev {device} {where} handle {QDISC_HANDLE:x}: {qdisc(link)}"]
    if link.qdisc == "prio":
        # Each priority has a queue as long as the link's; packets in a lower one are overtaken.
        child, pfifo = f"parent {QDISC_HANDLE:x}:", f"pfifo limit {queue_packets(link)}"
        lines += [f"qdisc add dev {device} {child}{band} {pfifo}" for band in (1, 2, 3)]
    if link.qdisc == "red_sfq":
        sfq = f"sfq limit {queue_packets(link)}"
        lines.append(
            f"qdisc add dev {device} parent {QDISC_HANDLE:x}:1 handle {SFQ_HANDLE:x}: {sfq}"
        )
    return lines


def destination_lines(link: Link, device: str, many: list[Destination]) -> list[str]:
    """A bottleneck of its own for each destination, with the link's qdisc and queue; the rest has
    no limit."""
    root = f"{QDISC_HANDLE:x}:"
    lines = classes(device, root)
    for minor, one in enumerate(many, 2):
        own = shaped(link, one)
        rate = f"rate {bits(own)} ceil {bits(own)} burst {burst(own)} cburst {burst(own)}"
        lines += [
            f"class add dev {device} parent {root} classid {root}{minor:x} htb {rate} quantum 1514",
            f"qdisc add dev {device} parent {root}{minor:x} {qdisc(own)}",
        ]
    return lines + classifier(device, root, [(one, minor) for minor, one in enumerate(many, 2)])


def intake_lines(link: Link, device: str) -> list[str]:
    """The router's work on packets as it takes them in, before any queue: ECT(0) becomes
    ECT(1), and act_police drops."""
    filters = []
    if link.ect1:
        munge = "action pedit ex munge ip tos set 1 retain 3 pipe"
        filters.append(f"pref 1 protocol ip u32 match ip tos 2 3 {munge} action csum ip4h continue")
    if link.police_mbit:
        police = f"police rate {round(link.police_mbit * 1e6)}bit burst {burst_bytes(link)}"
        filters.append(f"pref 2 matchall action {police} conform-exceed drop")
    lines = [f"filter add dev {device} ingress {one}" for one in filters]
    return [f"qdisc add dev {device} clsact", *lines] if lines else []


def has_intake(link: Link) -> bool:
    """Whether the router does any of this."""
    return bool(link.police_mbit or link.ect1)


def bits(link: Link) -> str:
    return f"{round((link.rate_mbit or 0) * 1e6)}bit"


def burst(link: Link) -> int:
    rate_bytes_per_ms = (link.rate_mbit or 0) * 125
    return max(round(rate_bytes_per_ms * _BURST_MS), _LEAST_BURST_BYTES)


def shaper(link: Link) -> str:
    # The limit concerns tbf's own queue, replaced by the qdisc below.
    limit = max(queue_bytes(link), 10 * burst(link))
    line = f"tbf rate {bits(link)} burst {burst(link)} limit {limit}"
    # A shaper takes apart packets longer than its bucket. A segment of 64 KB may fit into a
    # millisecond's worth, so a second bucket has room for one packet, and too high a rate to limit.
    return f"{line} peakrate {_NEVER_LIMITS} mtu {_ONE_PACKET_BYTES}" if link.sender_gso else line


def _cake(link: Link) -> str:
    rate = f"bandwidth {bits(link)}" if link.rate_mbit else "unlimited"
    return _with(link, f"cake {rate} besteffort memlimit {queue_bytes(link)}")


def _with(link: Link, text: str) -> str:
    return f"{text} {link.qdisc_options}" if link.qdisc_options else text


def qdisc(link: Link) -> str:
    """The qdisc under test with its queue, and with the scenario's options."""
    return _with(link, _kind(link))


def _kind(link: Link) -> str:
    packets, ecn = queue_packets(link), " ecn" if link.ecn else ""
    match link.qdisc:
        case "pfifo" | "sfq":
            return f"{link.qdisc} limit {packets}"
        case "prio":
            return "prio"
        case "codel" | "fq_codel" | "pie" | "fq_pie":
            return f"{link.qdisc} limit {packets}{ecn or ' noecn'}"
        case "fq":
            return f"fq limit {packets} flow_limit {packets}"
        case "dualpi2":
            # tc knows it from version 6.17 on, and without options every version adds it.
            return "dualpi2"
        case "cake":
            return _cake(link)
        case _:
            return f"red {_red(link)}{ecn}"


def _red(link: Link) -> str:
    """Floyd and Jacobson's rules of thumb: the upper threshold half the queue and three times the
    lower, a tenth dropped there, the burst as tc-red(8) recommends."""
    packet = 1000
    limit = max(queue_bytes(link), 12 * packet)
    most = limit // 2
    least = most // 3
    burst_packets = (2 * least + most) // (3 * packet) + 1
    return (
        f"limit {limit} min {least} max {most} avpkt {packet} burst {burst_packets} "
        f"probability 0.1 bandwidth {bits(link)}"
    )
