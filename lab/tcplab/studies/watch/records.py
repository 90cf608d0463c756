"""The file of `tcpilot watch --record` (docs/use/watch.md): flows with their rounds and intervals.

The structures are those of bpf/abi/watch.h; a test compares their sizes with the compiled ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

MAGIC = b"TPWATCH1"
OPENED, ROUND, INTERVAL = 1, 2, 3
QUIC = 128
"""TP_FLOW_QUIC: a flag."""
UDP = 17

_HEAD = [("kind", "<u4"), ("flow", "<u4")]
_ROUND_FIELDS = (
    *("number", "duration_us", "rtt_us", "min_rtt_us", "in_packets", "in_bytes", "backlog_bytes"),
    *("link_used", "acks", "acked_bytes", "marked_acks", "again_packets", "dropped_packets"),
    *("burst_packets", "sojourn_samples", "sojourn_min_us", "sojourn_max_us", "sojourn_mean_us"),
    *("flight_max_bytes", "flight_end_bytes", "receiver_window_bytes", "segment_bytes"),
    *("gap_max_us", "link_queue_us", "link_rate", "flags"),
)
_INTERVAL_FIELDS = (
    *("duration_us", "rtt_us", "packets", "acks", "max_queue_us", "dropped_packets"),
    *("bdp_packets", "group", "long_flows", "link_rate"),
)
ROUNDS = np.dtype([*_HEAD, ("end_ns", "<u8"), *((name, "<u4") for name in _ROUND_FIELDS)])
INTERVALS = np.dtype([*_HEAD, ("end_ns", "<u8"), *((name, "<u4") for name in _INTERVAL_FIELDS)])
FLOWS = np.dtype(
    [
        *_HEAD,
        ("at_ns", "<u8"),
        ("source", "u1", 16),
        ("destination", "u1", 16),
        ("source_port", "<u2"),
        ("destination_port", "<u2"),
        ("protocol", "u1"),
        ("pad", "u1", 3),
        ("handshake_rtt_us", "<u4"),
        ("flags", "<u4"),
    ]
)
_KINDS = {OPENED: FLOWS, ROUND: ROUNDS, INTERVAL: INTERVALS}

Table = npt.NDArray[Any]


@dataclass(frozen=True)
class Flow:
    """One flow of a recording."""

    opened: Any
    """A row of FLOWS."""
    rounds: Table
    intervals: Table


def read(path: Path) -> list[Flow]:
    """The flows of a file in the order they were opened; raises ValueError if it is none."""
    raw = path.read_bytes()
    if raw[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{path}: no recording of tcpilot watch")
    rows: dict[int, list[bytes]] = {kind: [] for kind in _KINDS}
    at = len(MAGIC)
    while at + 8 <= len(raw):
        kind = int.from_bytes(raw[at : at + 4], "little")
        if kind not in _KINDS:
            raise ValueError(f"{path}: byte {at} begins nothing that is known")
        size = _KINDS[kind].itemsize
        rows[kind].append(raw[at : at + size])
        at += size
    tables = {
        kind: np.frombuffer(b"".join(rows[kind]), dtype=dtype) for kind, dtype in _KINDS.items()
    }
    return [
        Flow(
            opened,
            tables[ROUND][tables[ROUND]["flow"] == opened["flow"]],
            tables[INTERVAL][tables[INTERVAL]["flow"] == opened["flow"]],
        )
        for opened in tables[OPENED]
    ]


@dataclass(frozen=True)
class Known:
    """The sender's own account of a recorded flow."""

    algorithm: str
    """As the kernel calls it."""
    name: str
    """The name of the scenario's flow."""
    flow: Flow

    @property
    def is_quic(self) -> bool:
        return _is_quic(self.flow)


def _is_quic(flow: Flow) -> bool:
    return bool((flow.rounds["flags"][-1:] & QUIC).any())


def with_algorithms(folder: Path) -> Iterator[Known]:
    """The flows of a cell's directory, with their congestion controls: joined by the sender's
    port."""
    table = pd.read_parquet(folder / "flows.parquet", columns=["local_port", "cc_used", "group"])
    rows = zip(table["cc_used"], table["group"], strict=True)
    used = dict(zip(table["local_port"], rows, strict=True))
    for flow in read(folder / "watch.bin"):
        port = int(flow.opened["source_port"])
        is_known = flow.opened["protocol"] != UDP or _is_quic(flow)
        if is_known and port in used:
            cc, name = used[port]
            yield Known(str(cc), str(name), flow)
