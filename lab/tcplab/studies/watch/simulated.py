"""Flows simulated by their laws (simulate/): rounds at rates beyond any host here.

The laws are the arithmetic of bpf/cc, the rounds are measured as bpf/watch does.  The queue is a
drop-tail FIFO, and all flows are bulk flows.  The same seed gives the same rounds.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tcplab.studies.watch import native, records
from tcplab.studies.watch.records import INTERVALS, ROUNDS, Flow, Table
from tcplab.studies.watch.traces import LEAST_ROUNDS, Trace

LAWS = (
    *("reno", "bic", "cubic", "highspeed", "htcp", "hybla", "westwood", "dctcp"),
    *("vegas", "lola", "veno", "illinois", "yeah", "bbr", "bbr3"),
)
"""In the order of simulate/laws.h."""
FRAME = 1514
"""Bytes of a packet on the link."""
PAYLOAD = 1448
WINDOW_MOST = 1 << 30
"""Bytes of the largest window (RFC 7323, section 2.3)."""
ROUNDS_MOST = 20_000
"""Most rounds kept of a flow: its first ones."""
START_S = 0.7
"""Between the starts of two flows, in the mean."""
LINE_TIMES = 10
"""A sender's own link is so many times as fast as the bottleneck."""
LINE_LEAST = 1.25e8
"""Least rate of the line, in bytes per second."""
_SOURCES = Path(__file__).with_name("simulate")


class _Path(ctypes.Structure):
    """struct sim_path."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("rate", "line_rate", "duration_us")),
        *((name, ctypes.c_uint32) for name in ("rtt_us", "up_us", "share_us", "queue_packets")),
        *(
            (name, ctypes.c_uint32)
            for name in ("most_burst", "ack_every", "lost_of_million", "seed")
        ),
        ("window_most", ctypes.c_uint32),
    ]


class _Flow(ctypes.Structure):
    """struct sim_flow."""

    _fields_ = [(n, ctypes.c_uint32) for n in ("law", "start_us", "extra_rtt_us", "is_paced")]


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck and its senders' hosts."""

    rate_mbit: float
    rtt_ms: float
    queue_bdp: float
    seconds: float
    super_packets: int = 1
    """Packets of the largest super-packet; 1: none."""
    ack_every: int = 2
    up_share: float = 0.25
    """The part of the round trip before the queue."""
    share_late_ms: float = 0.0
    """So much longer does the watch measure it."""
    loss_percent: float = 0.0
    is_paced: bool = False
    """As under the qdisc fq."""

    @property
    def bdp_packets(self) -> float:
        """Packets in flight on the path without a queue."""
        return self.rate_mbit * 1e6 / 8 * self.rtt_ms / 1e3 / FRAME

    @property
    def queue_packets(self) -> int:
        """Room of the queue."""
        return max(round(self.bdp_packets * self.queue_bdp), 4)

    def name(self, flows: int) -> str:
        """As a recorded path is called."""
        traits = [f"{self.queue_bdp:g} bdp"]
        traits += [f"{self.loss_percent:g} % loss"] if self.loss_percent else []
        traits += ["GSO"] if self.super_packets > 1 else []
        traits += ["fq paced"] if self.is_paced else []
        return (
            f"{self.rate_mbit:g} Mbit/s, {self.rtt_ms:g} ms, {', '.join(traits)}, simulated, "
            f"{flows} flow{'s' if flows > 1 else ''}"
        )


@dataclass(frozen=True)
class Simulated:
    """How a flow ended."""

    rounds: Table
    """Rows of records.ROUNDS."""
    delivered: int
    """Packets."""


@functools.cache
def library() -> ctypes.CDLL:
    """Compiled for each process."""
    found = native.compiled(_SOURCES / "simulate.c")
    found.simulate_law.restype = ctypes.c_char_p
    return found


def run(path: Bottleneck, algorithms: Sequence[str], seed: int = 1) -> list[Simulated]:
    """A flow of each algorithm, in their order; raises RuntimeError if a window outgrows its
    places."""
    places = int(4 * (path.bdp_packets + path.queue_packets)) + 256
    rate = path.rate_mbit * 1e6 / 8
    given = _Path(
        rate=int(rate),
        line_rate=int(max(rate * LINE_TIMES, LINE_LEAST)),
        duration_us=int(path.seconds * 1e6),
        rtt_us=int(path.rtt_ms * 1e3),
        up_us=int(path.rtt_ms * 1e3 * path.up_share),
        share_us=int(path.rtt_ms * 1e3 * path.up_share + path.share_late_ms * 1e3),
        queue_packets=path.queue_packets,
        most_burst=path.super_packets,
        ack_every=path.ack_every,
        lost_of_million=round(path.loss_percent * 1e4),
        seed=seed,
        window_most=min(places, WINDOW_MOST // PAYLOAD),
    )
    starts = np.cumsum([0, *np.random.default_rng(seed).uniform(0.5, 1.5, len(algorithms) - 1)])
    flows = (_Flow * len(algorithms))(
        *(
            _Flow(LAWS.index(name), int(at * START_S * 1e6), 0, path.is_paced)
            for name, at in zip(algorithms, starts, strict=True)
        )
    )
    rounds = np.zeros((len(algorithms), ROUNDS_MOST), dtype=ROUNDS)
    counts = np.zeros(len(algorithms), dtype=np.uint32)
    delivered = np.zeros(len(algorithms), dtype=np.uint32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (rounds, counts, delivered)]
    failed = library().simulate(
        ctypes.byref(given), flows, len(algorithms), pointers[0], ROUNDS_MOST, *pointers[1:]
    )
    if failed:
        raise RuntimeError(f"{path.name(len(algorithms))}: a window outgrew its places")
    return [
        Simulated(rounds[i, : counts[i]].copy(), int(delivered[i])) for i in range(len(algorithms))
    ]


def traces(path: Bottleneck, algorithms: Sequence[str], seed: int = 1) -> list[Trace]:
    """The flows as recordings, without those of few rounds."""
    found = []
    opened, intervals = np.zeros(1, dtype=records.FLOWS)[0], np.zeros(0, dtype=INTERVALS)
    for name, one in zip(algorithms, run(path, algorithms, seed), strict=True):
        if len(one.rounds) < LEAST_ROUNDS:
            continue
        found.append(
            Trace(
                algorithm=name,
                path=path.name(len(algorithms)),
                cell=f"{'-'.join(algorithms)}.{seed}",
                flow=Flow(opened, one.rounds, intervals),
                features=native.features(one.rounds),
                queue_share=path.queue_packets / len(algorithms),
            )
        )
    return found


# The values for bottlenecks() to draw from.
RATES_MBIT = (1.0, 10_000.0)
RTTS_MS = (0.3, 300.0)
QUEUES_BDP = (0.2, 8.0)
SECONDS = (20.0, 120.0)
FLOWS = (1, 2, 3, 4, 8, 16, 64)
GSO_FROM_MBIT = 20.0
"""On faster paths senders may have super-packets, and from ten times that on they do."""
FAST_MBIT = (300.0, 10_000.0)
TRAINING = ((110, 1000, RATES_MBIT), (150, 2000, FAST_MBIT))
"""The training set of the model for paths beyond recordings: paths, seed and rates."""


def bottlenecks(count: int, seed: int, rates: tuple[float, float] = RATES_MBIT) -> list[Bottleneck]:
    """Paths at random; each order of magnitude is as likely as any other."""
    rng = np.random.default_rng(seed)

    def between(least: float, most: float) -> float:
        return float(f"{np.exp(rng.uniform(np.log(least), np.log(most))):.2g}")

    def one() -> Bottleneck:
        rate = between(*rates)
        is_fast = rate >= 10 * GSO_FROM_MBIT
        has_gso = is_fast or (rate >= GSO_FROM_MBIT and rng.random() < 0.6)
        return Bottleneck(
            rate_mbit=rate,
            rtt_ms=between(*RTTS_MS),
            queue_bdp=between(*QUEUES_BDP),
            seconds=between(*SECONDS),
            super_packets=44 if has_gso else 1,
            up_share=float(rng.choice([0.02, 0.25, 0.5])),
            loss_percent=between(0.001, 0.3) if rng.random() < 0.15 else 0.0,
            is_paced=bool(rng.random() < 0.15),
        )

    return [one() for _ in range(count)]


def mixes(count: int, seed: int) -> list[list[str]]:
    """All algorithms in random order, so many at a time."""
    order = [str(name) for name in np.random.default_rng(seed).permutation(LAWS)]
    order *= 1 + (count - 1) // len(order)
    order += order[: -len(order) % count]
    return [order[i : i + count] for i in range(0, len(order), count)]


def campaign(count: int, seed: int, rates: tuple[float, float] = RATES_MBIT) -> Iterator[Trace]:
    """Each algorithm once, or a few of them twice, on each of so many paths."""
    rng = np.random.default_rng(seed + 1)
    for place, path in enumerate(bottlenecks(count, seed, rates)):
        for mix in mixes(int(rng.choice(FLOWS)), seed * 1000 + place):
            yield from traces(path, mix, seed * 1000 + place)


def training() -> list[Trace]:
    """The flows of TRAINING."""
    return [trace for what in TRAINING for trace in campaign(*what)]
