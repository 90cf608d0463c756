"""Tables of recordings, for training and judging a model without the recordings.

Training reads a table with a row for each sample (train.table).  Judging reads a row for each
round: its numbers have fewer bits than the kernel's, numbers unused by trees are zero, and there
are no intervals for P4air's rules.  `shrink` makes the small tables of docs/measured/data from such
whole ones; `read_rounds` reads both.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tcplab.studies.watch import native, packed, train
from tcplab.studies.watch.features import FEATURES
from tcplab.studies.watch.packed import BITS, coded, decoded
from tcplab.studies.watch.records import FLOWS, INTERVALS, ROUNDS, Flow, Table
from tcplab.studies.watch.traces import Trace

ABOUT = ("campaign", "cell", "path", "algorithm", "kind", "queue_share", "counts_acks")
OF_FLOW = ("grain", "set", *ABOUT)
"""Columns of a packed table with the same value in all rounds of a flow."""


def write(table: pd.DataFrame, path: Path, words: Sequence[str]) -> None:
    """As Parquet.  `words` are the columns with few different values.  If the name ends with `.xz`,
    xz compresses the file: it is a tenth smaller than by Parquet's own means."""
    is_xz = path.suffix == ".xz"
    content = io.BytesIO()
    table.to_parquet(
        content,
        index=False,
        compression=None if is_xz else "zstd",
        compression_level=None if is_xz else 22,
        use_dictionary=list(words),
        use_byte_stream_split=[str(name) for name in table.columns if name not in words],
        row_group_size=1 << 21,
        data_page_size=1 << 24,
        write_batch_size=1 << 20,
    )
    raw = content.getvalue()
    path.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME) if is_xz else raw)


def read(path: Path) -> pd.DataFrame:
    """The inverse of `write`."""
    raw = path.read_bytes()
    return pd.read_parquet(io.BytesIO(lzma.decompress(raw) if path.suffix == ".xz" else raw))


def write_samples(traces: Sequence[Trace], campaigns: Sequence[str], path: Path) -> None:
    """For training."""
    write(train.table(traces, campaigns), path, train.ABOUT)


def write_ranks(rows: pd.DataFrame, path: Path) -> None:
    """Samples of few values, each by its place among those of its feature."""
    levels, ranks = {}, {}
    for name in FEATURES:
        values, places = np.unique(rows[name], return_inverse=True)
        levels[name], ranks[name] = values.tolist(), places.astype(np.int32)
    table = rows.assign(**ranks)
    table.attrs["levels"] = levels
    write(table, path, train.ABOUT)


def read_samples(path: Path) -> pd.DataFrame:
    """A table for training, whole or with ranks."""
    table = read(path)
    levels = table.attrs.pop("levels", {})
    values = {name: np.array(of, dtype=np.int32)[table[name]] for name, of in levels.items()}
    return table.assign(**values)


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
    return table.assign(flow=place, **_about(trace, campaign))


def _about(trace: Trace, campaign: str) -> dict[str, Any]:
    values = (campaign, *(getattr(trace, name) for name in ABOUT[1:]))
    return dict(zip(ABOUT, values, strict=True))


@dataclass(frozen=True)
class Packed:
    """A flow for the small table."""

    trace: Trace
    grain: int
    """As packed.pack has it."""
    set: str
    campaign: str


def write_packed(flows: Sequence[Packed], path: Path) -> None:
    """Flows in this order, for judging."""
    parts = []
    for place, one in enumerate(flows):
        columns = packed.pack(one.trace.flow.rounds, one.grain)
        about: dict[str, Any] = {"flow": place, "grain": one.grain, "set": one.set}
        about |= _about(one.trace, one.campaign)
        parts.append(pd.DataFrame(columns).assign(**about))
    together = pd.concat(parts, ignore_index=True)
    numbers = list(packed.COLUMNS)
    if together[numbers].to_numpy().max() >= 1 << 31:
        raise ValueError("a number has more than 31 bits")
    write(together.astype(dict.fromkeys(numbers, np.int32)), path, ["flow", *OF_FLOW])


def read_rounds(path: Path, sets: Sequence[str] = ()) -> list[Trace]:
    """The flows of a table, whole or packed, in its order; with `sets` only those of these."""
    table = read(path)
    if sets:
        table = table[table["set"].isin(sets)]
    of = _unpacked if "grain" in table else _whole
    return [_trace(rows, of(rows)) for _, rows in table.groupby("flow", sort=True)]


def _whole(rows: pd.DataFrame) -> Table:
    rounds = np.zeros(len(rows), dtype=ROUNDS)
    for name, bits in BITS.items():
        if name in rows:  # an older file lacks later measures
            rounds[name] = decoded(rows[name].to_numpy(np.int64), bits)
    rounds["number"] = np.arange(len(rows))
    return rounds


def _unpacked(rows: pd.DataFrame) -> Table:
    columns = {name: rows[name].to_numpy(np.int64) for name in packed.COLUMNS}
    return packed.unpack(columns, int(rows["grain"].iloc[0]))


def _trace(rows: pd.DataFrame, rounds: Table) -> Trace:
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
