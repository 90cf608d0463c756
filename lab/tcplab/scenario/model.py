"""One cell: the whole description of one run, resolved, immutable, without file or sweep.

Rates are Mbit/s (10^6), times s or ms by their names.  A path is left - router - router - right:
the sender is on the left, the bottleneck (rate and qdisc) between the routers, delay, jitter, loss
and reordering on the far router's way to the right.  A path may also be direct: left - right.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tcplab.scenario import traces
from tcplab.scenario.fields import checked, choice, flag, number, text
from tcplab.scenario.spread import spread

QDISCS = (
    "pfifo",
    "codel",
    "fq_codel",
    "red",
    "pie",
    "sfq",
    "red_sfq",
    "cake",
    "fq",
    "prio",
    "fq_pie",
    "dualpi2",
)
PLACES = ("router", "host")
PATHS = ("routed", "direct")
KINDS = ("bulk", "pareto", "request", "short", "http", "udp", "ping")
DATAGRAMS = ("udp", "ping")
TUNERS = ("none", "tcpilot", "bpftune", "limit")
PARTS = ("set", "random", "lookup", "storage", "record", "move")
TRANSPORTS = ("tcp", "mptcp", "quic", "mpquic")
QUIC_CONTROLS = ("cubic", "reno", "bbr3", "lia", "olia", "balia")
"""Congestion controls of flowgen's QUIC; tcpilot's prefix may stand before them."""
PACKET_BYTES = 1514
"""A full packet as a qdisc counts it, with its Ethernet header."""

ABSENT = "none"
"""A flow with this congestion control does not take part: the solo run of the others."""
SYSTEM = "default"
"""The system, or the tuner, chooses; the application does not."""

_QUEUE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(packets|bytes|ms|bdp)\s*$")
_NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,14}$")


def _queue(value: Any) -> str:
    match = _QUEUE.match(value) if isinstance(value, str) else None
    if not match or float(match[1]) <= 0:
        raise ValueError(
            f'{value!r} is no queue; write "100 packets", "64000 bytes", "50 ms" or "1 bdp"'
        )
    return str(value)


def _version(value: Any) -> int:
    if value not in (4, 6) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no version of IP: 4 or 6")
    return int(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise ValueError(f"{value!r} is no name: up to 15 of a-z, 0-9, - and _")
    return value


def _trace(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name or a file is expected, not {value!r}")
    traces.text(value)
    return value if value in traces.names() else str(Path(value).resolve())


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a list of names is expected, not {value!r}")
    return tuple(_name(name) for name in value)


def read_parts(value: Any) -> tuple[str, ...]:
    """The work of the tuner `limit`."""
    if not isinstance(value, list) or not all(part in PARTS for part in value):
        raise ValueError(f"a list of {', '.join(PARTS)} is expected, not {value!r}")
    return tuple(value)


@dataclass(frozen=True)
class Link:
    """A path's bottleneck and its surroundings."""

    name: str = checked("bottleneck", _name)
    shares: str | None = checked(None, _name)
    """An earlier link, whose bottleneck this one's packets cross: it gives rate, queue and the way
    between the routers; round trip and losses are its own."""
    rate_mbit: float | None = number(above=0, most=40_000)
    """None: no shaping, the machine is the limit."""
    rtt_ms: float = number(0.0, least=0, most=10_000)
    """Round trip without any queue."""
    before_share: float = number(0.0, least=0, most=1)
    """The part of rtt_ms between the sender and the bottleneck; the rest is behind it.  Answers are
    late by it when they have passed the bottleneck, so only its link delays the sender's own
    packets."""
    jitter_ms: float = number(0.0, least=0, most=1_000)
    loss_percent: float = number(0.0, least=0, below=100)
    loss_burst_packets: float = number(1.0, least=1, most=1_000)
    """Mean length of a burst of losses; 1: independent losses."""
    reorder_percent: float = number(0.0, least=0, below=100)
    queue: str = checked("1 bdp", _queue)
    qdisc: str = choice("pfifo", *QDISCS)
    ecn: bool = flag()
    """The qdisc marks instead of dropping, and both ends negotiate ECN."""
    qdisc_options: str = checked("", lambda value: str(value))
    """Further options of the qdisc, as tc takes them."""
    path: str = choice("routed", *PATHS)
    """direct: one veth pair without routers, segmentation offload as it comes, and netem with its
    own limit on the sender's device, where it loses up to 64 KB at once: what others publish."""
    place: str = choice("router", *PLACES)
    """Place of the bottleneck: between the routers, or at the sender's own egress."""
    police_mbit: float | None = number(above=0, most=40_000)
    """A policer before the bottleneck: it drops packets above this rate and queues nothing."""
    police_burst: str = checked("64000 bytes", _queue)
    """The policer's bucket; ms and bdp are of its own rate."""
    ect1: bool = flag()
    """The first router turns ECT(0) into ECT(1), before the policer and the bottleneck: a flow with
    ECN is L4S there (RFC 9331).  No kernel up to 7.2 sends data with ECT(1)."""

    second_rate_mbit: float | None = number(above=0, most=40_000)
    """A second bottleneck, behind the first."""
    second_queue: str = checked("1 bdp", _queue)
    second_qdisc: str = choice("pfifo", *QDISCS)
    back_rate_mbit: float | None = number(above=0, most=40_000)
    """A bottleneck for acknowledgements on the way back; None: no shaping."""
    back_queue: str = checked("1 bdp", _queue)
    """bdp is of the way back's rate."""
    back_qdisc: str = choice("pfifo", *QDISCS)
    back_qdisc_options: str = checked("", lambda value: str(value))
    """Such as "ack-filter" of cake, to thin acknowledgements."""
    back_loss_percent: float = number(0.0, least=0, below=100)
    back_slot_ms: float = number(0.0, least=0, most=1_000)
    """The way back opens once in so many milliseconds, and lets all packets through at once."""
    receiver_gro_us: int = number(0, least=0, most=100_000, whole=True)
    """The receiver's device joins packets arriving within this time, and acknowledges them once; 0:
    each packet by itself."""
    sender_gso: bool = flag()
    """The sender hands its device segments of up to 64 KB; the bottleneck splits them."""

    trace: str | None = checked(None, _trace)
    """The rate over time, in mahimahi's format: a trace of the laboratory, or a file."""

    def expected_mbit(self) -> float | None:
        """The long-term rate of the path."""
        given = (self.rate_mbit, self.police_mbit, self.second_rate_mbit)
        rates = [rate for rate in given if rate]
        return min(rates) if rates else None


@dataclass(frozen=True)
class Flow:
    """Connections with the same properties."""

    name: str = checked(None, _name)
    kind: str = choice("bulk", *KINDS)
    cc: str = checked(SYSTEM, _name)
    start_s: float = number(0.0, least=0, most=100_000)
    duration_s: float | None = number(above=0, most=100_000)
    """None: to the end."""
    bytes: int | None = number(least=1, most=10**12, whole=True)
    each_s: float | None = number(above=0, most=100_000)
    """Length of each of several connections, one after the other."""
    streams: int = number(1, least=1, most=20_000, whole=True)
    """Connections side by side."""
    stagger_s: float = number(0.0, least=0, most=1_000)
    connections: int | None = number(least=1, most=1_000_000, whole=True)
    """Connections in all, one after the other in each stream; None: as many as fit."""
    gap_ms: float = number(0.0, least=0, most=100_000)
    warmup: int = number(0, least=0, most=1_000_000, whole=True)
    """So many connections at first do not count."""
    direction: str = choice("up", "up", "down")
    """up: from left to right, over the bottleneck; down: the way of the acknowledgements."""
    source_rate_mbit: float | None = number(above=0, most=40_000)
    """The application hands over data at this rate; None: as fast as the socket takes it."""
    on_s: float | None = number(least=0.01, most=100_000)
    """The application has data for so long, and then none for off_s, in turn; None: always."""
    off_s: float = number(0.0, least=0, most=100_000)
    fq_paced: bool = flag()
    """The sender's kernel paces the packets of any algorithm, as it does under the qdisc fq."""
    packets_per_s: float = number(50.0, above=0, most=10_000)
    """For udp and ping."""
    packet_bytes: int = number(172, least=8, most=1_400, whole=True)
    """Payload of udp and ping; by default 20 ms of G.711 speech with RTP's header."""
    extra_rtt_ms: float = number(0.0, least=0, most=10_000)
    ip: int = checked(4, _version)
    destinations: int | None = number(least=1, most=120_000, whole=True)
    """Connections go to so many addresses, in prefixes of a /24 (a /48 of IPv6) each."""
    private: bool = flag()
    """Private addresses (RFC 1918); a tuner takes each for a path of its own."""
    prefixes: int = number(1, least=1, most=512, whole=True)
    vary: str = choice("destination", "destination", "prefix")
    """Whether each destination has values of its own, or each prefix."""
    destination_rtt_ms: tuple[float, ...] | str | None = spread(least=0, most=10_000)
    """In place of the link's."""
    destination_rate_mbit: tuple[float, ...] | str | None = spread(least=0.01, most=10_000)
    """A bottleneck of its own, with the link's qdisc and queue; the link then has no rate."""
    destination_loss_percent: tuple[float, ...] | str | None = spread(least=0, most=99)
    """In place of the link's."""
    destination_seed: int = number(1, least=0, whole=True)
    """Seed of the draws; the same in all repetitions."""
    visits: tuple[float, ...] | str | None = spread(least=0, most=100_000)
    """Connections to each destination, in random order; without it, to each in turn."""
    sizes_bytes: tuple[float, ...] | str | None = spread(least=1, most=10**10)
    """Sizes of bulk connections, in place of `bytes`."""
    arrive_within_s: float | None = number(above=0, most=100_000)
    """Connections start at random times within so long, regardless of earlier ones: a Poisson
    process with a known number of events."""
    transport: str = choice("tcp", *TRANSPORTS)
    """mptcp and mpquic have a path over every link; QUIC needs a flowgen with the feature
    `mpquic`."""
    spin: bool = flag(True)
    """For QUIC: the spin bit shows round trips; else it is random."""
    pareto_alpha: float = number(0.8, above=0, most=10)
    pareto_scale_bytes: int = number(20_000, least=1, most=10**9, whole=True)
    pareto_most_bytes: int | None = number(least=1, most=10**10, whole=True)
    pareto_bounded: bool = flag()
    """Sizes follow the bounded law, none above the most; else those above are cut to it."""
    request_bytes: int = number(10_000, least=1, most=10**9, whole=True)
    response_bytes: int = number(100, least=1, most=10**9, whole=True)
    think_ms: float = number(0.0, least=0, most=100_000)
    header_apart: bool = flag()
    """A request is written as a header of 100 bytes and a rest."""
    sample: bool = flag(True)

    @property
    def is_datagrams(self) -> bool:
        """No connection: delay and loss are measured."""
        return self.kind in DATAGRAMS

    @property
    def is_web(self) -> bool:
        """nginx sends a file to curl: common programs, unmodified."""
        return self.kind == "http"

    @property
    def multipath(self) -> bool:
        """One connection over all links."""
        return self.transport in ("mptcp", "mpquic")

    @property
    def quic(self) -> bool:
        """In flowgen, not in the kernel: the kernel's congestion controls are not asked for."""
        return self.transport in ("quic", "mpquic")


@dataclass(frozen=True)
class Tuner:
    """The tuner of the sender's host."""

    name: str = choice("none", *TUNERS)
    config: str = checked("", lambda value: str(value))
    """tcpilot's configuration, as text."""
    options: str = checked("", lambda value: str(value))
    """Further options of bpftune."""
    algorithms: tuple[str, ...] = checked((), _names)
    """tcpilot's candidates, in place of its default ones."""
    parts: tuple[str, ...] = checked((), read_parts)
    """Work of the tuner `limit` in addition to asking for callbacks: it sets bbr, draws a random
    number, looks a path up twice, makes a socket's storage, writes a record to a ring, moves
    connections to bbr at their first retransmission."""

    @property
    def alone(self) -> bool:
        """It changes more of a machine than one network namespace."""
        return self.name not in ("none", "limit")

    def text(self) -> str:
        """tcpilot's configuration with the algorithms."""
        first = f"algorithms = {json.dumps(self.algorithms)}\n" if self.algorithms else ""
        return first + self.config


@dataclass(frozen=True)
class Watch:
    """`tcpilot watch` on the first bottleneck's device."""

    record: bool = flag()
    """Run it, and keep its measures: watch.bin and watch.jsonl of the cell."""
    fair: bool = flag()
    """Run it with --fair at the link's rate, in place of the link's shaper and qdisc."""
    options: str = checked("", lambda value: str(value))
    """Further options of it."""


@dataclass(frozen=True)
class Capture:
    """Packets of the first link, as the ends see them: left.pcap and right.pcap of the cell."""

    at: str = choice("none", "none", "left", "right", "both")
    snap_bytes: int = number(128, least=14, most=65_536, whole=True)
    """Kept of each packet."""

    def ends(self) -> tuple[str, ...]:
        """Namespaces with a capture."""
        return {"none": (), "both": ("left", "right")}.get(self.at, (self.at,))


@dataclass(frozen=True)
class Measure:
    """Further measures."""

    acks: bool = flag()
    """The kernel's time on acknowledgements, by congestion control: acks.json of the cell."""
    programs: bool = flag()
    """Runs and time of the tuner's sockops programs, sampled: programs.parquet of the cell."""
    memory: bool = flag()
    """Memory of the tuner's process, idle, full and after queries: memory.jsonl of the cell."""
    processor: bool = flag()
    """The time of all processors during the traffic, whoever used it: for an otherwise idle
    machine."""
    settle_s: float = number(0.0, least=0, most=10_000)
    """After the traffic the process is left alone for so long before its memory counts as full."""


@dataclass(frozen=True)
class Change:
    """A change of a link while traffic runs; omitted properties stay."""

    at_s: float = number(None, least=0, most=100_000)
    link: str = text(required=True)
    rate_mbit: float | None = number(above=0, most=40_000)
    rtt_ms: float | None = number(least=0, most=10_000)
    jitter_ms: float | None = number(least=0, most=1_000)
    loss_percent: float | None = number(least=0, most=100)
    """100: nothing gets through any more, and neither host gets notice."""
    loss_burst_packets: float | None = number(least=1, most=1_000)
    queue: str | None = checked(None, _queue)


@dataclass(frozen=True)
class Cell:
    """One run."""

    duration_s: float
    sample_ms: int
    drain_s: float
    links: tuple[Link, ...]
    flows: tuple[Flow, ...]
    tuner: Tuner = field(default_factory=Tuner)
    changes: tuple[Change, ...] = ()
    sysctl: dict[str, str] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    capture: Capture = field(default_factory=Capture)
    measure: Measure = field(default_factory=Measure)
    stand_ins: bool = False
    """tcpilot's algorithms of the same papers replace those missing in the engine's kernel."""
    delays: str = "netem"
    """The maker of delays and losses: netem, or relay if the engine's kernel has no netem."""
    relay_processor: int | None = None
    """The processor of the relay and of the programs of the ends, if they are to be apart from the
    bottlenecks."""

    def present(self) -> list[Flow]:
        """Active flows."""
        return [flow for flow in self.flows if flow.cc != ABSENT]

    @property
    def ecn(self) -> str:
        """net.ipv4.tcp_ecn of both ends: 1 if a link marks, unless the scenario says."""
        marks = any(link.ecn for link in self.links)
        return self.sysctl.get("net.ipv4.tcp_ecn", str(int(marks)))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def queue_bytes(link: Link) -> int:
    """The queue's size in bytes, at least two full packets."""
    return _bytes(link.queue, link.rate_mbit, link)


def before_ms(link: Link) -> float:
    """The sender's part of the round trip without any queue."""
    return link.rtt_ms * link.before_share


def behind_ms(link: Link) -> float:
    """The receiver's part of the delay, for packets to the right."""
    return link.rtt_ms - before_ms(link)


def second_of(link: Link) -> Link:
    """The second bottleneck, as a link of its own."""
    return replace(
        link,
        rate_mbit=link.second_rate_mbit,
        queue=link.second_queue,
        qdisc=link.second_qdisc,
        qdisc_options="",
    )


def back_of(link: Link) -> Link:
    """The bottleneck on the way back, as a link of its own."""
    return replace(
        link,
        rate_mbit=link.back_rate_mbit,
        queue=link.back_queue,
        qdisc=link.back_qdisc,
        qdisc_options=link.back_qdisc_options,
    )


def burst_bytes(link: Link) -> int:
    """The size of the policer's bucket in bytes, at least two full packets."""
    return _bytes(link.police_burst, link.police_mbit, link)


def _bytes(text: str, rate_mbit: float | None, link: Link) -> int:
    match = _QUEUE.match(text)
    amount, unit = (float(match[1]), match[2]) if match else (1.0, "bdp")
    bytes_per_ms = (rate_mbit or 0) * 125
    size = {
        "packets": amount * PACKET_BYTES,
        "bytes": amount,
        "ms": amount * bytes_per_ms,
        "bdp": amount * bytes_per_ms * link.rtt_ms,
    }[unit]
    return max(round(size), 2 * PACKET_BYTES)


def queue_packets(link: Link) -> int:
    """The queue's size in full packets."""
    return max(round(queue_bytes(link) / PACKET_BYTES), 2)


def cell_from_json(raw: dict[str, Any]) -> Cell:
    """The inverse of `Cell.as_json`; for validated cells."""
    return Cell(
        duration_s=raw["duration_s"],
        sample_ms=raw["sample_ms"],
        drain_s=raw["drain_s"],
        links=tuple(Link(**link) for link in raw["links"]),
        flows=tuple(_flow_from_json(flow) for flow in raw["flows"]),
        tuner=_tuner_from_json(raw["tuner"]),
        changes=tuple(Change(**change) for change in raw["changes"]),
        sysctl=dict(raw["sysctl"]),
        stand_ins=raw.get("stand_ins", False),
        watch=Watch(**raw.get("watch", {})),
        capture=Capture(**raw.get("capture", {})),
        measure=Measure(**raw.get("measure", {})),
    )


def _tuner_from_json(raw: dict[str, Any]) -> Tuner:
    known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    return Tuner(**known)


def _flow_from_json(raw: dict[str, Any]) -> Flow:
    """Results from before QUIC say whether a flow is MPTCP's.  JSON has no tuples."""
    known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    if known.pop("mptcp", False):
        known["transport"] = "mptcp"
    return Flow(**known)
