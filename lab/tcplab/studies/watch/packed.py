"""Rounds of a flow as small numbers, for docs/measured/data/watch-rounds.parquet.

`pack` stores the numbers of a round for rules and trees.  Each number is relative to another number
of the round, or to its own value a round before.  Many differences are 0, and the file's
compression stores a round in four bytes.  `shrink` calls `pack`, and `kept.read_rounds` calls
`unpack`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tcplab.studies.watch.records import ROUNDS, Table

Numbers = npt.NDArray[np.int64]


BITS = {
    **dict.fromkeys(("flags", "again_packets", "dropped_packets", "marked_acks"), 32),
    **dict.fromkeys(("flight_max_bytes", "segment_bytes"), 16),
    **dict.fromkeys(("rtt_us", "min_rtt_us"), 10),
    **dict.fromkeys(("duration_us", "in_bytes", "sojourn_mean_us", "link_queue_us"), 8),
    **dict.fromkeys(("in_packets", "acks", "acked_bytes", "burst_packets", "link_rate"), 6),
    **dict.fromkeys(("sojourn_max_us", "receiver_window_bytes", "gap_max_us", "link_used"), 6),
}
"""The measures of a round (bpf/core/watch) for judging, with the significant bits kept."""


@dataclass(frozen=True)
class Grain:
    """How fine the numbers of a flow are: significant bits, or bits of a share."""

    rtt: int
    duration: int
    sent: int
    queue: int
    """Bits of the share of the link's longest queue."""
    share: int
    """Bits of the ratios of gap to round trip, and of sent to acknowledged bytes."""
    burst: int


GRAINS = (
    Grain(6, 4, 4, 5, 2, 2),
    Grain(6, 4, 5, 6, 2, 2),
    Grain(7, 5, 5, 6, 2, 2),
    Grain(7, 5, 6, 7, 2, 3),
    Grain(8, 6, 6, 7, 3, 3),
    Grain(8, 6, 7, 8, 3, 4),
    Grain(9, 7, 7, 9, 4, 4),
    Grain(10, 8, 8, 10, 6, 6),
    Grain(12, 10, 10, 12, 8, 8),
)
"""From coarse to fine: a flow has the first one with unchanged verdicts (shrink)."""
EXACT = len(GRAINS)
"""The grain of a flow whose numbers are those of the whole table."""
RARE = (
    *("segment_bytes", "flags", "marked_acks", "again_packets", "dropped_packets"),
    *("min_rtt_us", "link_queue_us", "link_rate", "link_used"),
)
"""Rarely changing or mostly zero measures: each grain has them as the whole table does."""
_OFTEN = {
    **{"queue": "sojourn_mean_us", "rtt": "rtt_us", "duration": "duration_us"},
    **{"window": "flight_max_bytes", "sent": "in_bytes", "burst": "burst_packets"},
    **{"gap": "gap_max_us", "acked": "acked_bytes", "acks": "acks", "packets": "in_packets"},
}
"""The other columns, with their measures at the grain EXACT."""
COLUMNS = (*RARE, *_OFTEN)
_UNIT = 64
"""A gap as long as the round trip."""


def coded(values: Numbers, bits: int) -> Numbers:
    """Small codes in the values' order: so many bits from the first one on, and their place."""
    length: Numbers = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    shift: Numbers = np.maximum(length - bits, 0)
    found: Numbers = (shift << (bits - 1)) + (values >> shift)
    return found


def decoded(codes: Numbers, bits: int) -> Numbers:
    """The least value of a code."""
    shift = np.maximum((codes >> (bits - 1)) - 1, 0)
    found: Numbers = (codes - (shift << (bits - 1))) << shift
    return found


def _middle(codes: Numbers, bits: int) -> Numbers:
    """The value in the middle of a code's."""
    found: Numbers = (decoded(codes, bits) + decoded(codes + 1, bits)) // 2
    return found


def _unsigned(values: Numbers) -> Numbers:
    """0, -1, 1, -2 as 0, 1, 2, 3: small negative numbers have few bytes, too."""
    return (values << 1) ^ (values >> 63)


def _signed(values: Numbers) -> Numbers:
    return (values >> 1) ^ -(values & 1)


def _steps(values: Numbers) -> Numbers:
    return np.diff(values, prepend=0)


def pack(rounds: Table, grain: int) -> dict[str, Numbers]:
    """The columns of one flow, by a grain of GRAINS or EXACT."""
    found = {name: _steps(_coded(rounds, name)) for name in RARE}
    if grain == EXACT:
        found |= {name: _steps(_coded(rounds, measure)) for name, measure in _OFTEN.items()}
    else:
        found |= _relative(rounds, found, GRAINS[grain])
    return {name: _unsigned(column) for name, column in found.items()}


def _relative(rounds: Table, rare: dict[str, Numbers], grain: Grain) -> dict[str, Numbers]:
    of = {name: rounds[name].astype(np.int64) for name in BITS}
    found = {}
    longest_us = np.maximum(_rare(rare, "link_queue_us"), 1)
    queue = (of["sojourn_mean_us"] << grain.queue) // longest_us
    found["queue"] = _steps(queue)
    path_us = _rare(rare, "min_rtt_us") + _of_share(queue, longest_us, grain.queue)
    rtt = coded(of["rtt_us"], grain.rtt)
    found["rtt"] = rtt - coded(path_us, grain.rtt)
    rtt_us = np.maximum(_middle(rtt, grain.rtt), 1)
    found["duration"] = coded(of["duration_us"], grain.duration) - coded(rtt_us, grain.duration)
    window = (of["flight_max_bytes"] * 16) // np.maximum(of["segment_bytes"], 1)
    found["window"] = _steps(window)
    sent = coded(of["in_bytes"], grain.sent)
    found["sent"] = sent - coded(_flight(window, of["segment_bytes"]), grain.sent)
    packets = np.maximum(of["in_packets"], 1)
    found["burst"] = ((of["burst_packets"] << grain.burst) + packets // 2) // packets
    found["gap"] = coded(of["gap_max_us"] * _UNIT // rtt_us, grain.share)
    acked = np.maximum(of["acked_bytes"], 1)
    found["acked"] = coded((of["in_bytes"] << 8) // acked, grain.share)
    found["acks"] = np.where(of["marked_acks"] > 0, of["acks"], 0)
    found["packets"] = np.zeros(len(rounds), dtype=np.int64)
    return found


def unpack(columns: dict[str, Numbers], grain: int) -> Table:
    """The rounds of one flow."""
    columns = {name: _signed(column) for name, column in columns.items()}
    rounds = np.zeros(len(columns["rtt"]), dtype=ROUNDS)
    rounds["number"] = np.arange(len(rounds))
    for name in RARE:
        rounds[name] = _rare(columns, name)
    if grain == EXACT:
        for name, measure in _OFTEN.items():
            rounds[measure] = decoded(np.cumsum(columns[name]), BITS[measure])
    else:
        _add_relative(rounds, columns, GRAINS[grain])
    return rounds


def _add_relative(rounds: Table, columns: dict[str, Numbers], grain: Grain) -> None:
    segment = np.maximum(rounds["segment_bytes"].astype(np.int64), 1)
    longest_us = np.maximum(rounds["link_queue_us"].astype(np.int64), 1)
    queue_us = _of_share(np.cumsum(columns["queue"]), longest_us, grain.queue)
    path_us = rounds["min_rtt_us"] + queue_us
    rtt_us = np.maximum(_middle(columns["rtt"] + coded(path_us, grain.rtt), grain.rtt), 1)
    duration = columns["duration"] + coded(rtt_us, grain.duration)
    flight = _flight(np.cumsum(columns["window"]), segment)
    in_bytes = _middle(columns["sent"] + coded(flight, grain.sent), grain.sent)
    packets = np.maximum((in_bytes + segment // 2) // segment, 1)
    rounds["sojourn_mean_us"], rounds["rtt_us"] = queue_us, rtt_us
    rounds["duration_us"] = _middle(duration, grain.duration)
    rounds["flight_max_bytes"], rounds["in_bytes"], rounds["in_packets"] = flight, in_bytes, packets
    half = 1 << (grain.burst - 1)
    rounds["burst_packets"] = (columns["burst"] * packets + half) >> grain.burst
    rounds["gap_max_us"] = _middle(columns["gap"], grain.share) * rtt_us // _UNIT
    share = np.maximum(_middle(columns["acked"], grain.share), 1)
    rounds["acked_bytes"] = (in_bytes << 8) // share
    rounds["acks"] = columns["acks"]


def _coded(rounds: Table, measure: str) -> Numbers:
    return coded(rounds[measure].astype(np.int64), BITS[measure])


def _rare(columns: dict[str, Numbers], name: str) -> Numbers:
    return decoded(np.cumsum(columns[name]), BITS[name])


def _of_share(share: Numbers, whole: Numbers, bits: int) -> Numbers:
    """The number in the middle of those with this share."""
    found: Numbers = ((2 * share + 1) * whole) >> (bits + 1)
    return found


def _flight(window_x16: Numbers, segment_bytes: Numbers) -> Numbers:
    """The bytes of a window, such that the window of these bytes is the same."""
    found: Numbers = -(-window_x16 * np.maximum(segment_bytes, 1) // 16)
    return found
