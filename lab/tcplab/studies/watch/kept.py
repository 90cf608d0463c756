"""Recordings in little room, so that a model can be trained and judged again without them.

Training reads a table with a row for each sample (train.table).  Judging reads a row for each
round: its numbers have fewer bits than the kernel's, those that no tree asks for are zero, and
there are no intervals for P4air's rules.  docs/measured/data/watch-*.parquet are such files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tcplab.studies.watch import native, train
from tcplab.studies.watch.records import FLOWS, INTERVALS, ROUNDS, Flow
from tcplab.studies.watch.traces import Trace

BITS = {
    **dict.fromkeys(("flags", "again_packets", "dropped_packets", "marked_acks"), 32),
    **dict.fromkeys(("flight_max_bytes", "segment_bytes"), 16),
    **dict.fromkeys(("rtt_us", "min_rtt_us"), 10),
    **dict.fromkeys(("duration_us", "in_bytes", "sojourn_mean_us", "link_queue_us"), 8),
    **dict.fromkeys(("in_packets", "acks", "acked_bytes", "burst_packets", "link_rate"), 6),
    **dict.fromkeys(("sojourn_max_us", "receiver_window_bytes", "gap_max_us", "link_used"), 6),
}
"""The measures of a round (bpf/core/watch) that judging reads, with the significant bits kept."""
ABOUT = ("campaign", "cell", "path", "algorithm", "kind", "queue_share", "counts_acks")

Numbers = npt.NDArray[np.int64]


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


def write(table: pd.DataFrame, path: Path, words: Sequence[str]) -> None:
    """`words` are the columns with few different values."""
    numbers = [str(name) for name in table.columns if name not in words]
    table.to_parquet(
        path,
        index=False,
        compression="zstd",
        compression_level=22,
        use_dictionary=list(words),
        use_byte_stream_split=numbers,
        row_group_size=1 << 21,
        data_page_size=1 << 24,
        write_batch_size=1 << 20,
    )


def write_samples(traces: Sequence[Trace], campaigns: Sequence[str], path: Path) -> None:
    """For training."""
    write(train.table(traces, campaigns), path, train.ABOUT)


def write_rounds(
    traces: Sequence[Trace], campaigns: Sequence[str], path: Path, most: int | None = None
) -> None:
    """For judging; at most the first `most` rounds of a flow, since one with short round trips has
    thousands."""
    pairs = zip(campaigns, traces, strict=True)
    parts = [_rounds(place, most, *pair) for place, pair in enumerate(pairs)]
    write(pd.concat(parts, ignore_index=True), path, ["flow", *ABOUT])


def _rounds(place: int, most: int | None, campaign: str, trace: Trace) -> pd.DataFrame:
    rounds = trace.flow.rounds[:most]
    codes = {n: coded(rounds[n].astype(np.int64), bits) for n, bits in BITS.items()}
    table = pd.DataFrame({name: code.astype(np.int32) for name, code in codes.items()})
    values = (campaign, *(getattr(trace, name) for name in ABOUT[1:]))
    about: dict[str, Any] = dict(zip(ABOUT, values, strict=True))
    return table.assign(flow=place, **about)


def read_rounds(path: Path) -> list[Trace]:
    """The flows of a file, in the order in which they were written."""
    return [_trace(rows) for _, rows in pd.read_parquet(path).groupby("flow", sort=True)]


def _trace(rows: pd.DataFrame) -> Trace:
    rounds = np.zeros(len(rows), dtype=ROUNDS)
    for name, bits in BITS.items():
        if name in rows:  # an older file lacks measures that came later
            rounds[name] = decoded(rows[name].to_numpy(np.int64), bits)
    rounds["number"] = np.arange(len(rows))
    opened = np.zeros(1, dtype=FLOWS)[0]
    flow = Flow(opened, rounds, np.zeros(0, dtype=INTERVALS))
    first = rows.iloc[0]
    return Trace(
        algorithm=str(first["algorithm"]),
        path=str(first["path"]),
        cell=str(first["cell"]),
        flow=flow,
        features=native.features(rounds),
        queue_share=float(first["queue_share"]),
        kind=str(first["kind"]),
        counts_acks=bool(first.get("counts_acks", False)),
    )
