"""The emulated path as arguments of `ip -batch` and `tc -batch`: pure functions of a cell.

    left ── r1 ══ bottleneck ══ r2 ── netem ── right         per link; the namespaces are shared

Link i has the networks 10.(i+1).1/24 (left), 10.(i+1).2/24 (between the routers) and, one for
each round-trip time, 10.(i+1).(10+k)/24 (right).  Impairments are in the middle, never on the end
hosts: netem on a sender would break its back-pressure.  One segment per packet on both ends, so
that a packet is a packet (on veth this is what "offloads off" comes to).

    left ── netem ── right                                     a direct path, offloads as they come
"""

from __future__ import annotations

from dataclasses import replace

from tcplab.scenario.model import (
    Cell,
    Change,
    Flow,
    Link,
    burst_bytes,
    queue_bytes,
    queue_packets,
)

NAMESPACES = ("left", "r1", "r2", "right")
NETEM_LIMIT = 100_000
"""Packets; netem drops what is beyond, so it must never be reached."""
SHAPER_HANDLE = 1
QDISC_HANDLE = 0x10
SFQ_HANDLE = 0x20
NETEM_HANDLE = 0x30
FAIR_HANDLE = 0x7C2
"""Of the root qdisc that `tcpilot watch --fair` brings (crates/tcpilot/src/watch/fair)."""
# A millisecond's worth of the rate may go out at once, two full packets at least.
_BURST_MS = 1.0
_LEAST_BURST_BYTES = 2 * 1514


def rtts_ms(cell: Cell) -> list[float]:
    """The different additional round trips, one branch to the right for each."""
    return sorted({flow.extra_rtt_ms for flow in cell.flows})


def sender_address(link: int) -> str:
    return f"10.{link + 1}.1.1"


def receiver_address(link: int, branch: int) -> str:
    return f"10.{link + 1}.{10 + branch}.2"


def bottleneck(cell: Cell, link: int) -> tuple[str, str]:
    """Namespace and device of a link's queue."""
    at_host = cell.links[link].place == "host" or is_direct(cell.links[link])
    return ("left", f"l{link}") if at_host else ("r1", f"b{link}")


def is_direct(link: Link) -> bool:
    return link.path == "direct"


def has_queue(cell: Cell, link: int) -> bool:
    """Whether there is a qdisc whose counters tell of the bottleneck."""
    return not is_direct(cell.links[link]) or bool(netem_arguments(cell.links[link], 0))


def queue_handle(cell: Cell, link: int) -> int:
    """Its handle."""
    if cell.watch.fair and not link:
        return FAIR_HANDLE
    return NETEM_HANDLE if is_direct(cell.links[link]) else QDISC_HANDLE


def netem_places(cell: Cell, link: int) -> list[tuple[str, str, str, str]]:
    """Where delay, jitter and losses of a link are: namespace, device, netem's options, and its
    arguments, which may be empty."""
    one = cell.links[link]
    if is_direct(one):
        # Its default limit, 1000 packets.
        return [("left", f"l{link}", "", netem_arguments(one, 0))]
    return [
        ("r2", far_device(link, k), f"limit {NETEM_LIMIT} ", netem_arguments(one, extra_ms))
        for k, extra_ms in enumerate(rtts_ms(cell))
    ]


def policer_device(link: int) -> str:
    """Where the first router takes packets in."""
    return f"m{link}"


def far_device(link: int, branch: int) -> str:
    return f"f{link}x{branch}"


def destination(cell: Cell, flow: Flow) -> str:
    """Where a flow connects to: over the first link, on the branch of its round trip."""
    return receiver_address(0, rtts_ms(cell).index(flow.extra_rtt_ms))


def ip_lines(cell: Cell) -> dict[str, list[str]]:
    """Arguments of `ip -batch` by namespace; `""` is the outer one, which comes first."""
    outer: list[str] = []
    inside: dict[str, list[str]] = {name: ["link set lo up"] for name in NAMESPACES}
    for i, link in enumerate(cell.links):
        if is_direct(link):
            outer.append(f"link add l{i} netns left type veth peer name r{i}x0 netns right")
            inside["left"] += _device(f"l{i}", sender_address(i))
            inside["right"] += _device(f"r{i}x0", receiver_address(i, 0))
            inside["left"].append(f"route add 10.{i + 1}.0.0/16 dev l{i}")
            inside["right"].append(f"route add 10.{i + 1}.0.0/16 dev r{i}x0")
            continue
        outer += [
            f"link add l{i} netns left type veth peer name m{i} netns r1",
            f"link add b{i} netns r1 type veth peer name n{i} netns r2",
        ]
        near, middle = f"10.{i + 1}.1", f"10.{i + 1}.2"
        inside["left"] += _device(f"l{i}", f"{near}.1", single=True)
        inside["r1"] += _device(f"m{i}", f"{near}.2") + _device(f"b{i}", f"{middle}.1")
        inside["r2"] += _device(f"n{i}", f"{middle}.2")
        for k in range(len(rtts_ms(cell))):
            far = f"10.{i + 1}.{10 + k}"
            outer.append(f"link add f{i}x{k} netns r2 type veth peer name r{i}x{k} netns right")
            inside["r2"] += _device(f"f{i}x{k}", f"{far}.1")
            inside["right"] += _device(f"r{i}x{k}", f"{far}.2", single=True)
        inside["left"].append(f"route add 10.{i + 1}.0.0/16 via {near}.2")
        inside["r1"].append(f"route add 10.{i + 1}.0.0/16 via {middle}.2")
        inside["r2"].append(f"route add {near}.0/24 via {middle}.1")
        inside["right"].append(f"route add {near}.0/24 via 10.{i + 1}.10.1")
    return {"": outer, **inside}


def _device(name: str, address: str, single: bool = False) -> list[str]:
    segments = [f"link set {name} gso_max_segs 1"] if single else []
    return [*segments, f"link set {name} up", f"address add {address}/24 dev {name}"]


def mptcp_lines(cell: Cell) -> dict[str, list[str]]:
    """Arguments of `ip mptcp` by namespace: the right announces its address on every other link,
    to which the left opens a subflow, from its own address there, since the route says so."""
    if not any(flow.transport == "mptcp" for flow in cell.flows):
        return {}
    links = range(1, len(cell.links))
    limits = f"limits set subflow {len(cell.links)} add_addr_accepted {len(cell.links)}"
    announced = [f"endpoint add {receiver_address(i, 0)} dev r{i}x0 signal" for i in links]
    return {"left": [limits], "right": [limits, *announced]}


def tc_lines(cell: Cell) -> dict[str, list[str]]:
    """Arguments of `tc -batch` for the routers."""
    lines: dict[str, list[str]] = {"r1": [], "r2": []}
    for i, link in enumerate(cell.links):
        if not is_direct(link):
            namespace, device = bottleneck(cell, i)
            lines.setdefault(namespace, []).extend(bottleneck_lines(link, device))
            lines["r1"] += policer_lines(link, policer_device(i))
        for namespace, device, options, netem in netem_places(cell, i):
            if netem:
                line = _netem_line("add", device, options, netem)
                lines.setdefault(namespace, []).append(line)
    return lines


def bottleneck_lines(link: Link, device: str) -> list[str]:
    """The shaper and the qdisc under test below it."""
    if link.qdisc == "cake":
        cake = f"cake bandwidth {_bits(link)} besteffort memlimit {queue_bytes(link)}"
        return [f"qdisc add dev {device} root handle {QDISC_HANDLE:x}: {cake}"]
    where, lines = "root", []
    if link.rate_mbit:
        where = f"parent {SHAPER_HANDLE}:1"
        lines.append(f"qdisc add dev {device} root handle {SHAPER_HANDLE}: {_shaper(link)}")
    lines.append(f"qdisc add dev {device} {where} handle {QDISC_HANDLE:x}: {_qdisc(link)}")
    if link.qdisc == "prio":
        # Each priority has a queue as long as the link's; what is in a lower one is overtaken.
        child, pfifo = f"parent {QDISC_HANDLE:x}:", f"pfifo limit {queue_packets(link)}"
        lines += [f"qdisc add dev {device} {child}{band} {pfifo}" for band in (1, 2, 3)]
    if link.qdisc == "red_sfq":
        sfq = f"sfq limit {queue_packets(link)}"
        lines.append(
            f"qdisc add dev {device} parent {QDISC_HANDLE:x}:1 handle {SFQ_HANDLE:x}: {sfq}"
        )
    return lines


def policer_lines(link: Link, device: str) -> list[str]:
    """act_police on the way in; what it drops never comes to a queue."""
    if not link.police_mbit:
        return []
    police = f"police rate {round(link.police_mbit * 1e6)}bit burst {burst_bytes(link)}"
    return [
        f"qdisc add dev {device} clsact",
        f"filter add dev {device} ingress matchall action {police} conform-exceed drop",
    ]


def _bits(link: Link) -> str:
    return f"{round((link.rate_mbit or 0) * 1e6)}bit"


def _shaper(link: Link) -> str:
    rate_bytes_per_ms = (link.rate_mbit or 0) * 125
    burst = max(round(rate_bytes_per_ms * _BURST_MS), _LEAST_BURST_BYTES)
    # The limit is that of tbf's own queue, which the qdisc below replaces.
    return f"tbf rate {_bits(link)} burst {burst} limit {max(queue_bytes(link), 10 * burst)}"


def _qdisc(link: Link) -> str:
    packets, ecn = queue_packets(link), " ecn" if link.ecn else ""
    match link.qdisc:
        case "pfifo":
            return f"pfifo limit {packets}"
        case "prio":
            return "prio"
        case "codel":
            return f"codel limit {packets}{ecn or ' noecn'}"
        case "fq_codel":
            return f"fq_codel limit {packets}{ecn or ' noecn'}"
        case "pie":
            return f"pie limit {packets}{ecn or ' noecn'}"
        case "sfq":
            return f"sfq limit {packets}"
        case "fq":
            return f"fq limit {packets} flow_limit {packets}"
        case _:
            return f"red {_red(link)}{ecn}"


def _red(link: Link) -> str:
    """Floyd and Jacobson's rules of thumb: the upper threshold half the queue and three times the
    lower, a tenth dropped there, the burst as tc-red(8) recommends."""
    packet = 1000
    limit = max(queue_bytes(link), 12 * packet)
    most = limit // 2
    least = most // 3
    burst = (2 * least + most) // (3 * packet) + 1
    return (
        f"limit {limit} min {least} max {most} avpkt {packet} burst {burst} "
        f"probability 0.1 bandwidth {_bits(link)}"
    )


def netem_arguments(link: Link, extra_ms: float) -> str:
    """netem's arguments for the way to the right; empty where there is nothing to emulate."""
    words: list[str] = []
    delay_ms = link.rtt_ms + extra_ms
    if delay_ms:
        jitter = f" {link.jitter_ms:g}ms" if link.jitter_ms else ""
        words.append(f"delay {delay_ms:g}ms{jitter}")
    if link.loss_percent:
        words.append(_loss(link))
    if link.reorder_percent:
        words.append(f"reorder {link.reorder_percent:g}%")
    return " ".join(words)


def _loss(link: Link) -> str:
    if link.loss_burst_packets <= 1 or link.loss_percent >= 100:
        return f"loss random {link.loss_percent:g}%"
    # Gilbert's model: all is lost in the bad state.  It is left with probability r per packet,
    # so that bursts have mean 1/r, and entered with p such that p/(p+r) is the loss.
    share = link.loss_percent / 100
    leave = 1 / link.loss_burst_packets
    enter = leave * share / (1 - share)
    return f"loss gemodel {100 * enter:.6g}% {100 * leave:.6g}% 100% 0%"


def _netem_line(verb: str, device: str, options: str, arguments: str) -> str:
    return f"qdisc {verb} dev {device} root handle {NETEM_HANDLE:x}: netem {options}{arguments}"


def changed(link: Link, change: Change) -> Link:
    """The link after a change."""
    given = {
        key: getattr(change, key)
        for key in ("rate_mbit", "rtt_ms", "jitter_ms", "loss_percent")
        if getattr(change, key) is not None
    }
    return Link(**{**link.__dict__, **given})


def change_lines(cell: Cell) -> list[tuple[float, str, str]]:
    """When, in which namespace, and tc's arguments, for every change of the schedule."""
    names = [link.name for link in cell.links]
    now = cell
    found: list[tuple[float, str, str]] = []
    for change in sorted(cell.changes, key=lambda c: c.at_s):
        i = names.index(change.link)
        links = list(now.links)
        before = links[i]
        after = links[i] = changed(before, change)
        old_places, now = netem_places(now, i), replace(now, links=tuple(links))
        if after.rate_mbit != before.rate_mbit:
            namespace, device = bottleneck(cell, i)
            if after.qdisc == "cake":
                what = f"handle {QDISC_HANDLE:x}: cake bandwidth {_bits(after)}"
            else:
                what = f"handle {SHAPER_HANDLE}: {_shaper(after)}"
            found.append((change.at_s, namespace, f"qdisc change dev {device} root {what}"))
        for old, new in zip(old_places, netem_places(now, i), strict=True):
            namespace, device, options, arguments = new
            if new != old:
                line = _netem_line("replace", device, options, arguments or "delay 0ms")
                found.append((change.at_s, namespace, line))
    return found
