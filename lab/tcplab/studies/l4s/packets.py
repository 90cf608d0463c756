"""Data packets of a cell's captures, and how long each was in the queue.

A packet is known at both ends by its sender's port, its identification and its sequence number.
Its delay less the least delay of any packet of its size in the cell is its time in queues: the
bottleneck's, because nothing else on the path has one.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd

_MAGIC_NANOSECONDS = 0xA1B2_3C4D
_HEADER_BYTES = 24
_RECORD = struct.Struct("=IIII")
# Ethernet and IPv4 without options, and TCP up to its flags.
_NEEDED_BYTES = 14 + 20 + 14
_FULL_BYTES = 1400
"""Packets of at least so many bytes are data, and take alike long to send."""
CODEPOINTS = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
"""By the two bits in the header (RFC 3168, section 5)."""


def read(path: Path) -> pd.DataFrame:
    """TCP packets of a capture in its order: time, sender's port, identification, sequence number,
    codepoint, flags (with AE as bit 8), and length on the wire.

    Raises ValueError for a file not written by flowgen.
    """
    raw = path.read_bytes()
    if len(raw) < _HEADER_BYTES or struct.unpack_from("=I", raw)[0] != _MAGIC_NANOSECONDS:
        raise ValueError(f"{path} is no capture with nanoseconds")
    rows = []
    at = _HEADER_BYTES
    while at + _RECORD.size <= len(raw):
        seconds, nanoseconds, kept, length = _RECORD.unpack_from(raw, at)
        at += _RECORD.size
        if kept >= _NEEDED_BYTES and raw[at + 12 : at + 14] == b"\x08\x00" and raw[at + 23] == 6:
            tos, ident = raw[at + 15], int.from_bytes(raw[at + 18 : at + 20], "big")
            port, _, seq, _, flags = struct.unpack_from("!HHIIH", raw, at + 34)
            rows.append(
                (seconds + nanoseconds / 1e9, port, ident, seq, tos & 3, flags & 0x1FF, length)
            )
        at += kept
    columns = ["t_s", "port", "ident", "seq", "ecn", "flags", "bytes"]
    return pd.DataFrame(rows, columns=columns)


def delays(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Full data packets that arrived: time, port, codepoint, and milliseconds in the queue."""
    keys = ["port", "ident", "seq"]
    sent = left[left["bytes"] >= _FULL_BYTES].drop_duplicates(keys)
    came = right[right["bytes"] >= _FULL_BYTES].drop_duplicates(keys)
    both = came.merge(sent[[*keys, "t_s"]], on=keys, suffixes=("", "_sent"))
    took_ms = (both["t_s"] - both["t_s_sent"]) * 1e3
    queued_ms = took_ms - took_ms.groupby(both["bytes"]).transform("min")
    return both.assign(queued_ms=queued_ms)[["t_s", "port", "ecn", "bytes", "queued_ms"]]


def percentile(values: pd.Series[float], percent: float) -> float | None:
    """By linear interpolation between order statistics; None of nothing."""
    return float(np.percentile(values, percent)) if len(values) else None
