"""The needs of a cell in a kernel: congestion controls, qdiscs, and other parts of its path."""

from __future__ import annotations

from tcplab.algorithms import is_own, without_prefix
from tcplab.engine import watcher
from tcplab.scenario.model import ABSENT, SYSTEM, Cell, Link, back_of, second_of

_BUILT_IN = ("reno", "cubic")
_QDISC_MODULES = {"red_sfq": ("red", "sfq"), "pfifo": ()}


def congestion_controls(cell: Cell) -> set[str]:
    """Names in flows and sysctls."""
    named = {flow.cc for flow in cell.flows if not flow.quic} - {ABSENT, SYSTEM}
    system = cell.sysctl.get("net.ipv4.tcp_congestion_control")
    return named | ({system} if system else set())


def ours(cell: Cell) -> list[str]:
    """tcpilot's algorithms, without the prefix, as `tcpilot cc load` names them."""
    named = congestion_controls(cell)
    return sorted(without_prefix(name) for name in named if is_own(name))


def needs_tcpilot(cell: Cell) -> bool:
    return cell.tuner.name == "tcpilot" or watcher.is_wanted(cell) or bool(ours(cell))


def qdiscs(cell: Cell) -> set[str]:
    """Kinds of qdiscs, the shaper and netem included."""
    found: set[str] = set()
    for link in cell.links:
        found |= set() if link.trace else _bottleneck(link)
        if link.second_rate_mbit:
            found |= _bottleneck(second_of(link))
        if link.back_rate_mbit:
            found |= _bottleneck(back_of(link))
        impaired = (link.rtt_ms, link.loss_percent, link.back_loss_percent, link.back_slot_ms)
        if any(impaired) or any(flow.extra_rtt_ms for flow in cell.flows):
            found.add("netem")
        if link.police_mbit or link.ect1:
            found.add("ingress")
    if _many(cell):
        found |= {"htb", "netem"}
    if cell.watch.fair:
        found.add("htb")
    if any(change.rtt_ms or change.loss_percent for change in cell.changes):
        found.add("netem")
    return found


def _bottleneck(link: Link) -> set[str]:
    found = set(_QDISC_MODULES.get(link.qdisc, (link.qdisc,)))
    return found | {"tbf"} if link.rate_mbit and link.qdisc != "cake" else found


def _many(cell: Cell) -> bool:
    """A router distinguishes destinations; a direct path has none."""
    routed = cell.links[0].path != "direct"
    return routed and any(flow.destinations for flow in cell.flows)


def modules(cell: Cell) -> tuple[str, ...]:
    """Modules to load, by their usual names; for a kernel with modules."""
    named = sorted(congestion_controls(cell))
    foreign = [n for n in named if n not in _BUILT_IN and not is_own(n)]
    controls = [f"tcp_{name}" for name in foreign]
    queues = (f"sch_{name}" for name in sorted(qdiscs(cell)))
    policer = ("act_police", "cls_matchall") if any(link.police_mbit for link in cell.links) else ()
    marking = ("cls_u32", "act_pedit", "act_csum") if any(link.ect1 for link in cell.links) else ()
    filters = ("cls_bpf",) if cell.watch.fair else ()
    classifier = ("cls_u32",) if _many(cell) else ()
    relay = ("tun",) if any(link.trace for link in cell.links) else ()
    web = ("tcp_diag",) if any(flow.is_web for flow in cell.flows) else ()
    capture = ("af_packet",) if cell.capture.ends() else ()
    return (
        *controls,
        *queues,
        *policer,
        *marking,
        *filters,
        *classifier,
        *relay,
        *web,
        *capture,
        "veth",
    )
