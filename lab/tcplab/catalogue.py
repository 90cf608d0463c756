"""Every metric once: name, unit, direction, definition, source.

The report's headings, the tolerances of `tcplab diff` and docs/use/laboratory-metrics.md follow
this table.  A name may carry a flow group after a dot: `goodput_mbit.first`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Better = Literal["more", "less", "neither"]


@dataclass(frozen=True)
class Metric:
    """One figure of a cell or of a point."""

    name: str
    title: str
    unit: str
    """Empty for a number without one."""
    better: Better
    digits: int
    """Decimals shown to a person."""
    floor: float
    """Differences below this are never reported, in the metric's unit."""
    definition: str
    source: str


_OURS = "ours"
_JAIN = "Jain, Chiu, Hawe, DEC-TR-301 (1984)"
_WARE = "Ware et al., HotNets 2019"
_7928 = "RFC 7928, section 2"

_ALL = [
    Metric(
        "jain",
        "Jain's index",
        "",
        "more",
        3,
        0.01,
        "(Σx)²/(n·Σx²) over the flows' goodputs of the whole run",
        _JAIN,
    ),
    Metric(
        "jain_per_second",
        "Jain's index per second",
        "",
        "more",
        3,
        0.01,
        "median over whole seconds with at least two flows alive throughout",
        _JAIN,
    ),
    Metric(
        "goodput_mbit",
        "Goodput",
        "Mbit/s",
        "more",
        2,
        0.02,
        "arrived bytes over the time from the first start to the last end",
        "RFC 2647, section 3.17",
    ),
    Metric(
        "flow_goodput_mbit",
        "Goodput per connection",
        "Mbit/s",
        "more",
        2,
        0.02,
        "mean over connections of bytes over the connection's own duration",
        "RFC 2647, section 3.17",
    ),
    Metric(
        "learned_goodput_mbit",
        "Goodput once learned",
        "Mbit/s",
        "more",
        2,
        0.02,
        "the same for timed connections one after the other; under a tuner without those marked "
        "warmup, else without the first third (26 to 75 of 75)",
        "bpftune's article; the third is ours",
    ),
    Metric(
        "goodput_to_cubic",
        "Goodput relative to cubic",
        "×",
        "more",
        2,
        0.01,
        "median goodput once learned over cubic's in the same condition",
        "bpftune's article",
    ),
    Metric(
        "regret",
        "Regret",
        "",
        "less",
        3,
        0.01,
        "1 − goodput once learned over that of the best static algorithm",
        "Sutton & Barto, chapter 2",
    ),
    Metric(
        "utility_mbit",
        "Utility",
        "Mbit/s",
        "more",
        2,
        0.02,
        "mean over connections, warm-up included, of goodput × (1 − retransmitted share)",
        _OURS,
    ),
    Metric(
        "learned_utility_mbit",
        "Utility once learned",
        "Mbit/s",
        "more",
        2,
        0.02,
        "the same without the connections marked warmup",
        _OURS,
    ),
    Metric(
        "utility_mbit_geometric",
        "Utility, geometric mean",
        "Mbit/s",
        "more",
        2,
        0.02,
        "geometric mean over connections, warm-up included: comparable between fast and slow paths",
        _OURS,
    ),
    Metric(
        "utilisation",
        "Utilisation",
        "",
        "more",
        3,
        0.005,
        "bytes out of the bottleneck's queue over those allowed by its rate",
        _7928,
    ),
    Metric(
        "link_share",
        "Share of the link's rate",
        "",
        "more",
        3,
        0.005,
        "rate of multipath connections over a link, over the link's rate",
        "Turkovic & Kuipers, slides on MPTCP",
    ),
    Metric(
        "max_min_share",
        "Share of max-min",
        "",
        "more",
        3,
        0.01,
        "least over flows of goodput over the max-min fair rate of the links' payload",
        "Bertsekas & Gallager, section 6.5.2; Prudentia",
    ),
    Metric(
        "harm_goodput",
        "Harm to goodput",
        "",
        "less",
        3,
        0.02,
        "(x − y)/x: x the solo run's goodput, y with the competitor",
        _WARE,
    ),
    Metric(
        "harm_rtt",
        "Harm to RTT",
        "",
        "less",
        3,
        0.02,
        "(y − x)/y: x the solo run's RTT p95, y with the competitor",
        _WARE,
    ),
    Metric(
        "retransmit_ratio",
        "Retransmit ratio",
        "",
        "less",
        4,
        0.0005,
        "segments retransmitted over segments sent",
        "RFC 4898 (tcpEStatsPerfSegsRetrans)",
    ),
    Metric(
        "retransmit_ratio_all",
        "Retransmit ratio, warm-up included",
        "",
        "less",
        4,
        0.0005,
        "the same with the connections marked warmup",
        "RFC 4898 (tcpEStatsPerfSegsRetrans)",
    ),
    Metric(
        "mark_ratio",
        "CE-mark ratio",
        "",
        "neither",
        4,
        0.0005,
        "marked packets over all packets out of the bottleneck's queue",
        "RFC 3168",
    ),
    Metric(
        "convergence_s",
        "Convergence",
        "s",
        "less",
        1,
        1.0,
        "from the youngest flow's start to the first of five whole seconds in a row with "
        "Jain's index of at least 0.95",
        "RFC 5166, section 2.3; the threshold is ours",
    ),
    Metric(
        "cwnd_packets",
        "Congestion window",
        "packets",
        "neither",
        1,
        0.5,
        "mean of the samples",
        "RFC 5681, section 2",
    ),
    Metric(
        "rtt_ms_mean",
        "RTT, mean",
        "ms",
        "less",
        1,
        0.2,
        "mean of the samples' smoothed round-trip time",
        "RFC 6298, section 2",
    ),
    Metric(
        "standstill_s",
        "Standstill",
        "s",
        "less",
        2,
        0.02,
        "longest pause of a receiving application between its first byte and its last; of flows "
        "of a given size, the worst",
        _OURS,
    ),
    Metric(
        "ack_ns",
        "Processor per ACK",
        "ns",
        "less",
        0,
        5.0,
        "the kernel's time on an acknowledgement at the sender, in tcp_ack(); in "
        "virtual time an instruction is 1 ns",
        _OURS,
    ),
    Metric(
        "processor_s_per_gbit",
        "Processor per gigabit",
        "s",
        "less",
        2,
        0.02,
        "busy time of all processors, over the arrived gigabits: both ends, the path, and anything "
        "else",
        _OURS,
    ),
    Metric(
        "program_ns_per_event",
        "Programs' time per event",
        "ns",
        "less",
        1,
        1.0,
        "time of the tuner's sockops programs per event, median of the samples' intervals by "
        "events; in virtual time an instruction is 1 ns",
        _OURS,
    ),
    Metric(
        "program_events",
        "Programs' events per connection",
        "",
        "neither",
        2,
        0.05,
        "events of the tuner's sockops programs per connection, both ends",
        _OURS,
    ),
    Metric(
        "program_ns",
        "Programs' time per connection",
        "ns",
        "less",
        0,
        20.0,
        "time per event, times the events per connection",
        _OURS,
    ),
    Metric(
        "connections_per_s",
        "Connections per second",
        "1/s",
        "more",
        0,
        1.0,
        "connections without an error over the run's time",
        _OURS,
    ),
    Metric(
        "datagram_loss",
        "Datagrams lost",
        "",
        "less",
        4,
        0.0005,
        "lost datagrams (of ping: without an answer) over sent ones",
        "RFC 7680",
    ),
    Metric(
        "failed_connections",
        "Failed connections",
        "",
        "less",
        0,
        0.5,
        "connections with an error",
        _OURS,
    ),
]

_PERCENTILES = [
    ("queue_delay_ms", "Queue delay", "ms", 1, 0.2, "backlog of the bottleneck over its rate"),
    ("delay_ms", "Delay", "ms", 1, 0.2, "of datagrams: one way of udp, both ways of ping"),
    ("rtt_ms", "RTT", "ms", 1, 0.2, "smoothed round-trip time of the samples"),
    ("fct_ms", "Flow completion time", "ms", 1, 0.5, "from connect to the last byte"),
    (
        "fct_slowdown",
        "FCT slowdown",
        "×",
        2,
        0.05,
        "completion time over the ideal, two round trips plus the bytes at the link's rate",
    ),
]
_SOURCES = {
    "queue_delay_ms": _7928,
    "delay_ms": "RFC 7679; RFC 2681",
    "rtt_ms": "RFC 6298, section 2",
    "fct_ms": "Dukkipati & McKeown, CCR 2006",
    "fct_slowdown": "Alizadeh et al., pFabric, SIGCOMM 2013",
}
for _name, _title, _unit, _digits, _floor, _text in _PERCENTILES:
    for _p in (50, 95, 99):
        _ALL.append(
            Metric(
                f"{_name}_p{_p}",
                f"{_title} p{_p}",
                _unit,
                "less",
                _digits,
                _floor,
                f"{_p}th percentile: {_text}",
                _SOURCES[_name],
            )
        )

METRICS: dict[str, Metric] = {m.name: m for m in _ALL}

_PRICES = {
    "goodput_mbit": "retransmit_ratio",
    "flow_goodput_mbit": "retransmit_ratio",
    "learned_goodput_mbit": "retransmit_ratio",
    "learned_utility_mbit": "retransmit_ratio",
    "utility_mbit": "retransmit_ratio_all",
    "utility_mbit_geometric": "retransmit_ratio_all",
}


def metric(name: str) -> Metric:
    """The entry of a metric, with or without a flow group; a plain one for an unknown name."""
    base = name.partition(".")[0]
    return METRICS.get(base) or Metric(base, base, "", "neither", 3, 0.0, "", "")


def price_of(name: str) -> str | None:
    """The metric always shown next to this one, for the same flow group: a goodput means little
    without its retransmissions."""
    base, dot, group = name.partition(".")
    return f"{_PRICES[base]}{dot}{group}" if base in _PRICES else None


def percent(ratio: float) -> str:
    """A ratio as people read it."""
    return f"{100 * ratio:.2f} %"


def table() -> str:
    """The catalogue as Markdown: a line for each metric, its percentiles together."""
    lines = []
    for name, m in METRICS.items():
        if re.search(r"_p(95|99)$", name):
            continue
        names = f"`{name}`" + (", `_p95`, `_p99`" if name.endswith("_p50") else "")
        definition = m.definition.removeprefix("50th percentile: ")
        source = "" if m.source == "ours" else f". *{m.source}*"
        unit = f", {m.unit}" if m.unit else ""
        lines.append(f"- {names}{unit} ({m.better}; floor {m.floor:g}): {definition}{source}")
    return "\n".join(lines)
