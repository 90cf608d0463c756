"""Rules about several keys of a flow with many destinations."""

from __future__ import annotations

from tcplab.scenario.destinations import MOST_IN_A_PREFIX, MOST_PREFIXES
from tcplab.scenario.errors import Rule
from tcplab.scenario.model import Cell, Flow

_ONLY_MANY = (
    "prefixes",
    "private",
    "vary",
    "destination_rtt_ms",
    "destination_rate_mbit",
    "destination_loss_percent",
    "visits",
)
_OWN = ("destination_rtt_ms", "destination_rate_mbit", "destination_loss_percent")
MOST_ROUTED = 60_000


def _alone(_: Cell, flow: Flow) -> str | None:
    """Keys without a meaning unless there are `destinations`."""
    usual = Flow()
    given = [key for key in _ONLY_MANY if getattr(flow, key) != getattr(usual, key)]
    if flow.destinations or not given:
        return None
    return f"{', '.join(given)} need destinations"


def _room(_: Cell, flow: Flow) -> str | None:
    if not flow.destinations:
        return None
    if flow.prefixes > flow.destinations:
        return f"{flow.prefixes} prefixes are more than destinations"
    if flow.destinations > flow.prefixes * MOST_IN_A_PREFIX:
        return f"a prefix has room for {MOST_IN_A_PREFIX}; give more prefixes"
    return None


def _all_prefixes(cell: Cell, flow: Flow) -> str | None:
    total = sum(one.prefixes for one in cell.flows if one.destinations)
    if not flow.destinations or total <= MOST_PREFIXES:
        return None
    return f"all flows together have {total}, and {MOST_PREFIXES} are possible"


def _carried(cell: Cell, flow: Flow) -> str | None:
    if not flow.destinations:
        return None
    if flow.transport != "tcp":
        return f"many destinations are for tcp, not for {flow.transport}"
    if flow.kind == "request":
        return "a request has one connection, and one destination"
    if flow.private and flow.ip == 6:
        return "private addresses are of version 4"
    if flow.private and cell.links and cell.links[0].path != "direct":
        return "private addresses need a direct path"
    return None


def _by_path(cell: Cell, flow: Flow) -> str | None:
    """A router gives each destination its path by a class of its own; a class has 16 bits."""
    if not flow.destinations or not cell.links:
        return None
    if cell.links[0].path != "direct":
        many = flow.destinations > MOST_ROUTED
        return f"more than {MOST_ROUTED} need a direct path" if many else None
    usual = Flow()
    given = [key for key in _OWN if getattr(flow, key) != getattr(usual, key)]
    return f"a direct path has no {', no '.join(given)}" if given else None


def _own_rate(cell: Cell, flow: Flow) -> str | None:
    """A destination's rate is its bottleneck, and there cannot be another in the same place."""
    link = cell.links[0] if cell.links else None
    if flow.destination_rate_mbit is None or link is None:
        return None
    if link.rate_mbit:
        return "the link has a rate_mbit; leave one of the two out"
    if link.qdisc in ("prio", "red_sfq", "cake"):
        return f"each destination has a queue, which cannot be {link.qdisc}"
    if link.queue.endswith("bdp") and flow.destination_rtt_ms is None and not link.rtt_ms:
        return f"the queue, {link.queue!r}, needs destination_rtt_ms or rtt_ms above 0"
    return None


def _how_often(_: Cell, flow: Flow) -> str | None:
    if flow.visits is not None and flow.connections is not None:
        return "give visits or connections, not both"
    return None


def _arrivals(cell: Cell, flow: Flow) -> str | None:
    if flow.arrive_within_s is None:
        return None
    if not (flow.destinations or flow.connections):
        return "it needs a number of connections"
    if flow.streams > 1 or flow.gap_ms or flow.stagger_s:
        return "streams, stagger_s and gap_ms say when connections start; give them or this"
    if flow.kind == "request":
        return "a request has one connection"
    if flow.start_s + flow.arrive_within_s > cell.duration_s:
        return f"it ends after duration_s, {cell.duration_s:g}"
    return None


MANY_RULES: list[Rule] = [
    ("destinations", _ONLY_MANY, _alone),
    ("destinations", ("prefixes",), _room),
    ("prefixes", ("destinations", ("flow",)), _all_prefixes),
    ("destinations", ("transport", "kind", ("link",)), _carried),
    ("destinations", (*_OWN, ("link",)), _by_path),
    ("destination_rate_mbit", ("destination_rtt_ms", ("link",)), _own_rate),
    ("visits", ("connections", "destinations"), _how_often),
    (
        "arrive_within_s",
        ("destinations", "connections", "streams", "kind", ("duration_s",)),
        _arrivals,
    ),
]
