"""Builds a cell from the tables of a scenario, and checks rules about several keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from tcplab.algorithms import without_prefix
from tcplab.scenario.errors import Problem, Rule, Unknown
from tcplab.scenario.fields import read, suggestion
from tcplab.scenario.many import MANY_RULES
from tcplab.scenario.model import (
    ABSENT,
    QUIC_CONTROLS,
    SYSTEM,
    Capture,
    Cell,
    Change,
    Flow,
    Link,
    Measure,
    Tuner,
    Watch,
    behind_ms,
)
from tcplab.scenario.sources import SOURCE_RULES
from tcplab.scenario.top import Top

MOST_LINKS = 8
ALL_KEYS = tuple(field.name for cls in (Link, Flow, Change) for field in fields(cls))
"""Keys of tables for sweeps."""


def read_cell(
    top: Top, table: dict[str, Any], known: list[Problem], lost: Iterable[str] = ()
) -> tuple[Cell, list[Problem]]:
    """The cell described by the tables, and its mistakes; a cell with problems is of no use.

    `known` is wrong with the file above the cell, and `lost` are keys of a broken sweep; dependent
    rules are not judged.
    """
    problems: list[Problem] = []
    sysctl = table.get("sysctl", {})
    if not isinstance(sysctl, dict):
        problems.append(Problem(("sysctl",), "sysctl: a table is expected"))
        sysctl = {}
    cell = Cell(
        duration_s=top.duration_s,
        sample_ms=top.sample_ms,
        drain_s=top.drain_s,
        links=tuple(_list(Link, table, "link", problems)),
        flows=tuple(_list(Flow, table, "flow", problems)),
        tuner=read(Tuner, table.get("tuner", {}), ("tuner",), problems),
        changes=tuple(_list(Change, table, "change", problems)),
        sysctl={key: str(value) for key, value in sysctl.items()},
        stand_ins=top.stand_ins,
        watch=read(Watch, table.get("watch", {}), ("watch",), problems),
        capture=read(Capture, table.get("capture", {}), ("capture",), problems),
        measure=read(Measure, table.get("measure", {}), ("measure",), problems),
    )
    unknown = Unknown([*known, *problems], lost)
    for kind, items, rules in (
        ("link", cell.links, _LINK_RULES),
        ("flow", cell.flows, _FLOW_RULES),
        ("change", cell.changes, _CHANGE_RULES),
    ):
        problems += _broken(cell, kind, items, rules, unknown)
    problems += _of_the_whole(cell, unknown)
    return cell, problems


def _list(cls: type[Any], table: dict[str, Any], key: str, problems: list[Problem]) -> list[Any]:
    raw = table.get(key, [])
    if not isinstance(raw, list):
        problems.append(Problem((key,), f"{key}: write [[{key}]], a list of tables"))
        return []
    return [read(cls, item, (key, position), problems) for position, item in enumerate(raw)]


def _broken(
    cell: Cell, kind: str, items: Sequence[Any], rules: Sequence[Rule], unknown: Unknown
) -> list[Problem]:
    """The rules broken by tables of one kind, without rules about an unknown key."""
    found = []
    for position, item in enumerate(items):
        for key, others, wrong in rules:
            places = [o if isinstance(o, tuple) else (kind, position, o) for o in (key, *others)]
            if any(unknown.has(place) for place in places):
                continue
            if text := wrong(cell, item):
                found.append(Problem((kind, position, key), f"{key}: {text}"))
    return found


def _of_the_whole(cell: Cell, unknown: Unknown) -> list[Problem]:
    found = []
    if not unknown.has(("link",)):
        if not 1 <= len(cell.links) <= MOST_LINKS:
            found.append(Problem(("link",), f"link: 1 to {MOST_LINKS} are possible"))
        found += _twice("link", [link.name for link in cell.links])
    if not unknown.has(("flow",)):
        if not cell.flows:
            found.append(Problem(("flow",), "flow: at least one [[flow]] is needed"))
        elif not [f for f in cell.present() if not f.is_datagrams] and not unknown.has(
            ("flow", 0, "cc")
        ):
            found.append(Problem(("flow",), "flow: no connection takes part, nothing would run"))
        found += _twice("flow", [flow.name for flow in cell.flows])
    if cell.tuner.parts and cell.tuner.name != "limit" and not unknown.has(("tuner", "name")):
        found.append(Problem(("tuner", "parts"), f"parts: {cell.tuner.name} has none; limit has"))
    if cell.measure.memory and not cell.tuner.alone and not unknown.has(("tuner", "name")):
        text = f"memory: {cell.tuner.name!r} is no tuner with a process of its own"
        found.append(Problem(("measure", "memory"), text))
    return found


def _twice(kind: str, names: list[str | None]) -> list[Problem]:
    return [
        Problem((kind, position), f"{kind} {name!r} is there twice")
        for position, name in enumerate(names)
        if name is not None and name in names[:position]
    ]


def _needs_rtt(size: str, rate: str) -> Callable[[Cell, Link], str | None]:
    def wrong(_: Cell, link: Link) -> str | None:
        if not getattr(link, size).endswith("bdp") or not getattr(link, rate) or link.rtt_ms:
            return None
        return f"{getattr(link, size)!r} needs rtt_ms above 0; give packets, bytes or ms"

    return wrong


def _qdisc(_: Cell, link: Link) -> str | None:
    needs_rate = link.qdisc == "cake" or link.qdisc.startswith("red")
    return f"{link.qdisc} needs rate_mbit" if needs_rate and not link.rate_mbit else None


def _jitter(_: Cell, link: Link) -> str | None:
    if link.jitter_ms <= behind_ms(link):
        return None
    return f"{link.jitter_ms:g} is more than the delay behind the bottleneck, {behind_ms(link):g}"


def _reordering(_: Cell, link: Link) -> str | None:
    if not link.reorder_percent or behind_ms(link):
        return None
    return "it needs rtt_ms: what is reordered skips the delay behind the bottleneck"


def _before(cell: Cell, link: Link) -> str | None:
    """The sender's part is the same for everybody on the link."""
    if not link.before_share:
        return None
    if not link.rtt_ms:
        return "it needs rtt_ms"
    if link.place == "host":
        return "the bottleneck is at the sender, and nothing is before it"
    if any(flow.destinations for flow in cell.flows):
        return "destinations have their round trips behind the bottleneck"
    return None


def _direct(cell: Cell, link: Link) -> str | None:
    """A direct path has no feature of a router, and no qdisc except netem."""
    if link.path != "direct":
        return None
    usual = Link()
    wrong = [key for key in _ROUTED_ONLY if getattr(link, key) != getattr(usual, key)]
    wrong += ["extra_rtt_ms"] if any(flow.extra_rtt_ms for flow in cell.flows) else []
    wrong += [flow.transport for flow in cell.flows if flow.multipath]
    return f"a direct path has no {', no '.join(wrong)}" if wrong else None


_ROUTED_ONLY = (
    "before_share",
    "sender_gso",
    "rate_mbit",
    "queue",
    "qdisc",
    "ecn",
    "place",
    "police_mbit",
    "ect1",
    "second_rate_mbit",
    "back_rate_mbit",
    "back_loss_percent",
    "back_slot_ms",
    "trace",
)


def _gso(_: Cell, link: Link) -> str | None:
    """A policer before the bottleneck would drop a whole segment at once."""
    if not link.sender_gso or link.path == "direct" or link.trace:
        return None
    if link.police_mbit:
        return "police_mbit is before the bottleneck, and would drop 64 KB at once"
    return None if link.rate_mbit else "it needs rate_mbit, whose shaper takes segments apart"


def _traced(cell: Cell, link: Link) -> str | None:
    """A trace is a bottleneck by itself, with a first-in-first-out queue behind no shaper."""
    if not link.trace:
        return None
    usual = Link()
    keys = ("sender_gso", "rate_mbit", "qdisc", "qdisc_options", "ecn", "place", "path")
    wrong = [key for key in keys if getattr(link, key) != getattr(usual, key)]
    wrong += ["destination_rate_mbit"] if any(f.destination_rate_mbit for f in cell.flows) else []
    if wrong:
        return f"a trace is the bottleneck, which has no {', no '.join(wrong)}"
    if not link.queue.endswith(("packets", "bytes")):
        return 'give its queue in packets or bytes: queue = "100 packets"'
    return None


def _shares(cell: Cell, link: Link) -> str | None:
    """Both links go through the same two routers, and the part between them is the first one's."""
    if not link.shares:
        return None
    before = cell.links[: cell.links.index(link)]
    owner = next((one for one in before if one.name == link.shares), None)
    if owner is None:
        return f"there is no link {link.shares!r} before this one"
    usual = Link()
    between = [key for key in _BETWEEN if getattr(link, key) != getattr(usual, key)]
    if between:
        return f"{', '.join(between)} is that of {link.shares!r}; leave it out"
    wrong = [key for key in _UNSHARED if getattr(owner, key) != getattr(usual, key)]
    return f"what {link.shares!r} has cannot be shared: {', '.join(wrong)}" if wrong else None


_BETWEEN = (
    "rate_mbit",
    "queue",
    "qdisc",
    "qdisc_options",
    "ecn",
    "path",
    "place",
    "police_mbit",
    "ect1",
    "second_rate_mbit",
    "back_rate_mbit",
    "trace",
)
"""Keys inherited from the owner of a shared bottleneck."""
_UNSHARED = ("shares", "path", "place", "police_mbit", "ect1", "second_rate_mbit", "trace")
"""Keys without effect between the two routers, or without a bottleneck of one's own."""


def _ect1(cell: Cell, link: Link) -> str | None:
    """The router changes headers of version 4, and packets on their way to a bottleneck behind
    it."""
    if not link.ect1:
        return None
    if any(flow.ip == 6 for flow in cell.flows):
        return "only packets of IPv4 get ECT(1)"
    return "the bottleneck is before the router" if link.place == "host" else None


def _back(_: Cell, link: Link) -> str | None:
    """Shaping of the way back needs its rate."""
    if link.back_rate_mbit or (link.back_qdisc, link.back_qdisc_options) == ("pfifo", ""):
        return None
    return "it needs back_rate_mbit"


def _options(_: Cell, link: Link) -> str | None:
    """Two qdiscs share the place of one."""
    if link.qdisc_options and link.qdisc in ("prio", "red_sfq"):
        return f"{link.qdisc} is more than one qdisc, and takes no options"
    return None


_LINK_RULES: list[Rule] = [
    ("shares", (*_BETWEEN, ("link",)), _shares),
    ("path", (*_ROUTED_ONLY, ("flow",)), _direct),
    ("queue", ("rate_mbit", "rtt_ms"), _needs_rtt("queue", "rate_mbit")),
    ("police_burst", ("police_mbit", "rtt_ms"), _needs_rtt("police_burst", "police_mbit")),
    ("qdisc", ("rate_mbit",), _qdisc),
    ("ect1", ("place", ("flow",)), _ect1),
    (
        "second_queue",
        ("second_rate_mbit", "rtt_ms"),
        _needs_rtt("second_queue", "second_rate_mbit"),
    ),
    ("back_queue", ("back_rate_mbit", "rtt_ms"), _needs_rtt("back_queue", "back_rate_mbit")),
    ("back_qdisc", ("back_rate_mbit", "back_qdisc_options"), _back),
    ("qdisc_options", ("qdisc",), _options),
    ("trace", ("queue", *_ROUTED_ONLY, "path", ("flow",)), _traced),
    ("sender_gso", ("rate_mbit", "police_mbit", "path", "trace"), _gso),
    ("jitter_ms", ("rtt_ms", "before_share"), _jitter),
    ("reorder_percent", ("rtt_ms", "before_share"), _reordering),
    ("before_share", ("rtt_ms", "place", ("flow",)), _before),
]


def _start(cell: Cell, flow: Flow) -> str | None:
    if flow.start_s < cell.duration_s:
        return None
    return f"{flow.start_s:g} is not before duration_s, {cell.duration_s:g}"


def _end(cell: Cell, flow: Flow) -> str | None:
    late = flow.duration_s and flow.start_s + flow.duration_s > cell.duration_s > flow.start_s
    return "it ends after the whole, whose duration_s is too short" if late else None


def _size_or_time(_: Cell, flow: Flow) -> str | None:
    sized = flow.bytes or flow.sizes_bytes
    both = sized and (flow.each_s or flow.duration_s)
    return "give bytes or a time, not both" if both else None


def _name_of(_: Cell, flow: Flow) -> str | None:
    return None if flow.name else "every flow needs one"


def _kind(_: Cell, flow: Flow) -> str | None:
    if flow.kind == "bulk" or not (flow.bytes or flow.each_s or flow.sizes_bytes):
        return None
    if flow.is_web and not flow.each_s:
        return None
    return f"bytes, sizes_bytes and each_s are for bulk, not for {flow.kind}"


def _two_links(cell: Cell, flow: Flow) -> str | None:
    if not flow.multipath or len(cell.links) >= 2:
        return None
    return f"{flow.transport} needs two [[link]]"


def _untuned(cell: Cell, flow: Flow) -> str | None:
    if flow.transport == "tcp" or cell.tuner.name == "none":
        return None
    if flow.quic:
        return "tuners do not see QUIC; tuner none"
    return "tuners do not see MPTCP's subflows as connections; tuner none"


def _uploads(_: Cell, flow: Flow) -> str | None:
    if not flow.quic or flow.kind in ("bulk", "pareto"):
        return None
    return f"{flow.transport} carries bulk and pareto, not {flow.kind}"


def _spins(_: Cell, flow: Flow) -> str | None:
    return None if flow.spin or flow.quic else f"{flow.transport} has no spin bit"


def _control(_: Cell, flow: Flow) -> str | None:
    name = without_prefix(flow.cc)
    if not flow.quic or flow.cc in (SYSTEM, ABSENT) or name in QUIC_CONTROLS:
        return None
    return f"{flow.transport} has no {flow.cc!r}{suggestion(name, QUIC_CONTROLS)}"


def _closed_by_server(_: Cell, flow: Flow) -> str | None:
    if flow.kind != "short" or flow.cc in (SYSTEM, ABSENT):
        return None
    return "short connections are closed by the server; set the sysctl instead"


_FLOW_RULES: list[Rule] = [
    ("start_s", (("duration_s",),), _start),
    ("duration_s", ("start_s", ("duration_s",)), _end),
    ("bytes", ("each_s", "duration_s", "sizes_bytes"), _size_or_time),
    ("name", (), _name_of),
    ("kind", ("bytes", "each_s", "sizes_bytes"), _kind),
    ("transport", (("link",),), _two_links),
    ("transport", (("tuner", "name"),), _untuned),
    ("kind", ("transport",), _uploads),
    ("cc", ("transport",), _control),
    ("spin", ("transport",), _spins),
    ("cc", ("kind",), _closed_by_server),
    *MANY_RULES,
    *SOURCE_RULES,
]


def _link_of(cell: Cell, change: Change) -> Link | None:
    return next((link for link in cell.links if link.name == change.link), None)


def _known_link(cell: Cell, change: Change) -> str | None:
    if _link_of(cell, change):
        return None
    names = [link.name for link in cell.links]
    return f"there is no link {change.link!r}{suggestion(change.link, names)}"


def _moment(cell: Cell, change: Change) -> str | None:
    known = change.at_s is not None and change.at_s < cell.duration_s
    return None if known else "a time before duration_s is needed"


def _rate(cell: Cell, change: Change) -> str | None:
    link = _link_of(cell, change)
    fixed = change.rate_mbit and link and not link.rate_mbit
    return "this link has no rate that could change" if fixed else None


def _changed_queue(cell: Cell, change: Change) -> str | None:
    link = _link_of(cell, change)
    if not change.queue or not link:
        return None
    if link.shares:
        return f"this link's queue is that of {link.shares!r}"
    if link.qdisc in ("prio", "red_sfq", "cake", "dualpi2"):
        return f"the queue of {link.qdisc} cannot change under way"
    after = replace(link, queue=change.queue, rtt_ms=change.rtt_ms or link.rtt_ms)
    return _needs_rtt("queue", "rate_mbit")(cell, after)


_CHANGE_RULES: list[Rule] = [
    ("link", (("link",),), _known_link),
    ("at_s", (("duration_s",),), _moment),
    ("rate_mbit", ("link", ("link",), ("link", 0, "rate_mbit")), _rate),
    ("queue", ("link", ("link",)), _changed_queue),
]
