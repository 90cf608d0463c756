"""Recorded flows of campaigns, with their algorithm and their path."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcplab.algorithms import NEED_ECN, without_prefix
from tcplab.scenario.model import Flow as ScenarioFlow
from tcplab.scenario.model import cell_from_json, queue_packets
from tcplab.studies.watch import native
from tcplab.studies.watch.features import GROUP_OF
from tcplab.studies.watch.records import Flow, Known, with_algorithms

YEAH_PACKETS = 80
"""YeAH's threshold: up to so many packets of its own in the queue it is Reno, or, if the queue
holds less than the path, Westwood (Baiocchi et al. 2007, sections 2 and 3)."""

VEGAS_PACKETS = 2
"""Vegas grows as Reno does while fewer packets of its own wait in the queue (Brakmo and Peterson
1995, section III.B: alpha), and halves as Reno does."""
ILLINOIS_PACKETS = 15
"""Illinois is Reno below this window (Liu, Basar and Srikant 2008: W_thresh; 15 in Linux)."""
HYBLA_RTT_US = 25_000
"""Hybla grows as Reno does up to this round trip (Caini and Firrincieli 2004)."""
HIGHSPEED_PACKETS = 38
"""HighSpeed is Reno up to this window (RFC 3649, section 5)."""
BIC_PACKETS = 14
"""BIC is Reno up to this window (Xu, Harfoush and Rhee 2004: low_window)."""
COUNT_ACKS = ("highspeed", "hybla")
"""The kernel's modules of these names grow by acknowledgements, not by segments: if each
acknowledges two, by half of the law, and are not Reno (measured: HighSpeed below 38 packets grows
by 0.49 packets a round, Reno by 0.96).  tcpilot's own keep to the law."""

# Qdiscs with a short queue.
AQM = ("codel", "fq_codel", "pie", "fq_pie", "cake", "dualpi2", "red", "red_sfq")

BULK, PACED, CHUNKS, PAUSES, SPARSE = "bulk", "paced", "chunks", "pauses", "sparse"
"""Kinds of sources: always data; data at a rate; data for up to CHUNK_S at a time, or for longer;
small requests."""
CHUNK_S = 1.6
LIMITED = "limited"

LATE_US = 1000
"""So late the relay may be for its packets' 99th percentile: the jitter of a real path."""

LEAST_ROUNDS = 20
"""A flow with fewer shows too little."""


@dataclass(frozen=True)
class Trace:
    """One flow."""

    algorithm: str
    path: str
    """The whole configuration: flows of one never are on both sides of a split."""
    cell: str
    flow: Flow
    features: npt.NDArray[np.int32]
    queue_share: float = math.inf
    """The bottleneck's queue in packets over the number of flows; 0: it is kept short."""
    kind: str = BULK
    is_quic: bool = False
    counts_acks: bool = False
    """It is one of COUNT_ACKS."""

    @property
    def group(self) -> str:
        """As the paper groups the algorithm."""
        return GROUP_OF[self.algorithm]

    @property
    def label(self) -> str:
        """The class for a model to learn: an application-limited flow says nothing about its
        algorithm."""
        return LIMITED if self.kind in (PACED, CHUNKS) else self.algorithm

    @property
    def is_twin(self) -> bool:
        """On this path its law is another algorithm's, of another group; for Vegas and Illinois in
        three of four rounds."""
        if self.algorithm == "vegas":
            return bool(np.quantile(_own_packets(self.flow.rounds), 0.75) < VEGAS_PACKETS)
        if self.algorithm == "illinois":
            return bool(np.quantile(_windows(self.flow.rounds), 0.75) < ILLINOIS_PACKETS)
        return self.algorithm == "yeah" and self.queue_share <= YEAH_PACKETS

    @property
    def is_reno(self) -> bool:
        """On this path its law is Reno's, in three of four rounds."""
        rounds = self.flow.rounds
        if self.counts_acks:
            return False
        if self.algorithm == "hybla":
            return bool(np.quantile(rounds["rtt_us"], 0.75) <= HYBLA_RTT_US)
        if self.algorithm == "highspeed":
            return bool(np.quantile(_windows(rounds), 0.75) <= HIGHSPEED_PACKETS)
        if self.algorithm == "bic":
            return bool(np.quantile(_windows(rounds), 0.75) <= BIC_PACKETS)
        return False


def _windows(rounds: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """In packets."""
    found: npt.NDArray[np.float64] = rounds["flight_max_bytes"] / np.maximum(
        rounds["segment_bytes"], 1
    )
    return found


def _own_packets(rounds: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """A flow's own packets in the queue, as Vegas reckons them."""
    rtt_us = np.maximum(rounds["rtt_us"].astype(np.float64), 1)
    return _windows(rounds) * (1 - rounds["min_rtt_us"] / rtt_us)


def configuration(cell: dict[str, object]) -> str:
    """Two cells are on the same path if all is the same but the algorithms and the seed."""
    scenario = cell["scenario"]
    assert isinstance(scenario, dict)
    link = scenario["links"][0]
    flows = [f for f in scenario["flows"] if f["cc"] != "none"]
    streams = sum(f["streams"] for f in flows)
    traits = [f"{link['loss_percent']:g} % loss"] if link["loss_percent"] else []
    traits += ["GSO"] if link.get("sender_gso") else []
    traits += _beyond_fifo(link, flows)
    watch = scenario.get("watch", {})
    traits += [f"fair {watch['options']}".strip()] if watch.get("fair") else []
    before = link.get("before_share", 0)
    traits += [f"{before:.0%} before"] if before else []
    extra = sorted({f.get("extra_rtt_ms", 0) for f in flows} - {0})
    rtts = " and ".join(f"{link['rtt_ms'] + more:g}" for more in (0, *extra))
    return (
        f"{link['rate_mbit']:g} Mbit/s, {rtts} ms, {', '.join([link['queue'], *traits])}, "
        f"{streams} flow{'s' if streams > 1 else ''}"
    )


def _beyond_fifo(link: dict[str, Any], flows: list[dict[str, Any]]) -> list[str]:
    """The features of a path besides a FIFO and a constant delay, and the kernel's pacing."""
    kind, options = link.get("qdisc", "pfifo"), link.get("qdisc_options", "")
    found = [kind] if kind != "pfifo" else []
    found += [options] if options else []
    found += ["ECN"] if link.get("ecn") else []
    found += [f"policed to {link['police_mbit']:g}"] if link.get("police_mbit") else []
    for key, unit in (("jitter_ms", "ms"), ("back_slot_ms", "ms"), ("receiver_gro_us", "us")):
        if link.get(key):
            found.append(f"{key.rsplit('_', 1)[0].replace('_', ' ')} {link[key]:g} {unit}")
    return found + (["fq paced"] if any(f.get("fq_paced") for f in flows) else [])


def load(folders: Iterable[Path], of_quic: bool = False) -> list[Trace]:
    """The recorded flows of TCP, or of QUIC, in the fit cells of campaigns' directories."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob("cells/*/cell.json")):
            cell = json.loads(path.read_text())
            if is_fit(cell) and (path.parent / "watch.bin").exists():
                found += _of_cell(path.parent, cell)
    return [trace for trace in found if trace.is_quic == of_quic]


def is_fit(cell: dict[str, Any]) -> bool:
    """Good cells, and cells rejected for the calibration before the traffic, for late samples of
    the senders, or for a slightly late relay: a busy host disturbs these.  The watch recorded the
    packets as they were.  After a window beyond any law (tcplab.results.windows), they followed no
    algorithm."""
    if cell["status"] == "ok":
        return True
    found = cell.get("calibration") or {}
    late_us = found.get("relay_late_us_p99", {}).get("measured", 0)
    of_path = ("idle_rtt_ms", "loss", "relay_full", "window_packets_max")
    return (
        cell["status"] == "rejected"
        and late_us <= LATE_US
        and all(found[what]["ok"] for what in of_path if what in found)
    )


def joined(found: Iterable[Trace], after: int) -> list[Trace]:
    """The same flows, as if the watch had begun so many rounds later, without too short ones.
    The watch then knows the link, but no earlier round trip of the path."""
    return [_joined(t, after) for t in found if len(t.flow.rounds) >= after + LEAST_ROUNDS]


def _joined(trace: Trace, after: int) -> Trace:
    rounds = trace.flow.rounds[after:].copy()
    rounds["number"] -= rounds["number"][0]
    rounds["min_rtt_us"] = np.minimum.accumulate(rounds["rtt_us"])
    flow = replace(trace.flow, rounds=rounds)
    return replace(trace, flow=flow, features=native.features(rounds))


def _queue_share(cell: dict[str, object]) -> float:
    resolved = cell_from_json(cell["scenario"])  # type: ignore[arg-type]
    streams = sum(flow.streams for flow in resolved.present())
    if resolved.links[0].qdisc in AQM or resolved.watch.fair:
        return 0.0
    return queue_packets(resolved.links[0]) / streams


def _name(used: str, asked: str) -> str:
    """Without ECN a dependent algorithm is Reno, and reports this.  Its SYN still asked for ECN,
    and by that alone it differs from Reno: all such flows are called DCTCP, whichever asked."""
    if used in ("reno", "dctcp-reno") and asked in NEED_ECN:
        return "dctcp"
    name = without_prefix(used)
    return {"hstcp": "highspeed"}.get(name, name)


def _flows(cell: dict[str, object]) -> dict[str, ScenarioFlow]:
    """A scenario's flows by name."""
    resolved = cell_from_json(cell["scenario"])  # type: ignore[arg-type]
    return {str(flow.name): flow for flow in resolved.present()}


def _kind(flow: ScenarioFlow) -> str:
    if flow.kind == "request":
        return SPARSE
    if flow.on_s is not None:
        return CHUNKS if flow.on_s < CHUNK_S else PAUSES
    return BULK if flow.source_rate_mbit is None else PACED


def _of_cell(folder: Path, cell: dict[str, object]) -> list[Trace]:
    path, share, flows = configuration(cell), _queue_share(cell), _flows(cell)

    def name(known: Known) -> str:
        return _name(known.algorithm, flows[known.name].cc)

    def trace(known: Known) -> Trace:
        rounds = known.flow.rounds
        return Trace(
            name(known),
            path,
            str(cell["id"]),
            known.flow,
            native.features(rounds),
            share,
            _kind(flows[known.name]),
            known.is_quic,
            flows[known.name].cc in COUNT_ACKS,
        )

    return [
        trace(known)
        for known in with_algorithms(folder)
        if len(known.flow.rounds) >= LEAST_ROUNDS and name(known) in GROUP_OF
    ]
