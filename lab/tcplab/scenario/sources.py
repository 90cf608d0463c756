"""Rules about several keys of flows other than bulk data to the right: datagrams, flows the other
way, and application-limited flows."""

from __future__ import annotations

from tcplab.scenario.errors import Rule
from tcplab.scenario.model import ABSENT, SYSTEM, Cell, Flow

_NOT_OF_WEB = ("direction", "transport", "destinations", "each_s", "duration_s")

_OF_CONNECTIONS = (
    "bytes",
    "sizes_bytes",
    "each_s",
    "connections",
    "destinations",
    "arrive_within_s",
    "warmup",
)


def _datagrams(_: Cell, flow: Flow) -> str | None:
    if not flow.is_datagrams:
        return None
    usual = Flow()
    given = [key for key in _OF_CONNECTIONS if getattr(flow, key) != getattr(usual, key)]
    if flow.streams > 1:
        given.append("streams")
    if flow.transport != "tcp" or flow.cc not in (SYSTEM, ABSENT):
        given.append("transport" if flow.transport != "tcp" else "cc")
    return f"{flow.kind} is no connection, and has no {', '.join(given)}" if given else None


def _down(cell: Cell, flow: Flow) -> str | None:
    if flow.direction == "up":
        return None
    if flow.extra_rtt_ms or flow.destinations:
        return "what goes down has one way; leave extra_rtt_ms and destinations out"
    if flow.multipath:
        return f"{flow.transport} goes up"
    return None


def _web(cell: Cell, flow: Flow) -> str | None:
    """curl and nginx: one file for each connection, and the system's congestion control."""
    if not flow.is_web:
        return None
    if not (flow.bytes or flow.sizes_bytes):
        return "give the files' size: bytes or sizes_bytes"
    usual = Flow()
    given = [key for key in _NOT_OF_WEB if getattr(flow, key) != getattr(usual, key)]
    given += ["cc"] if flow.cc not in (SYSTEM, ABSENT) else []
    if given:
        return f"curl and nginx have no {', '.join(given)}; a sysctl sets the congestion control"
    if cell.tuner.name == "bpftune":
        return "bpftune's machine has no nginx; take bulk with bytes"
    return None


def _source(_: Cell, flow: Flow) -> str | None:
    if flow.source_rate_mbit is None and flow.on_s is None and not flow.off_s:
        return None
    if flow.kind != "bulk" or flow.bytes or flow.sizes_bytes:
        return "an application with a rate or pauses is for bulk by time"
    if flow.quic:
        return "an application with a rate or pauses is for tcp and mptcp"
    return None


def _fq_paced(_: Cell, flow: Flow) -> str | None:
    is_ours = flow.transport == "tcp" and not flow.is_datagrams and not flow.is_web
    return None if is_ours or not flow.fq_paced else "it is for flowgen's TCP"


def _pause(_: Cell, flow: Flow) -> str | None:
    return "it needs on_s" if flow.off_s and flow.on_s is None else None


SOURCE_RULES: list[Rule] = [
    ("kind", (*_OF_CONNECTIONS, "streams", "transport", "cc"), _datagrams),
    ("kind", ("bytes", "sizes_bytes", *_NOT_OF_WEB, "cc", ("tuner", "name")), _web),
    ("direction", ("extra_rtt_ms", "destinations", "transport"), _down),
    ("source_rate_mbit", ("on_s", "off_s", "kind", "bytes", "sizes_bytes", "transport"), _source),
    ("off_s", ("on_s",), _pause),
    ("fq_paced", ("kind", "transport"), _fq_paced),
]
