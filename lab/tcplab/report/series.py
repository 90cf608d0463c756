"""Time series of a cell, thinned to the resolution of a screen, packed for the page.

Samples are averaged over equal bins; goodput is exact, as it comes from a counter; drops and
marks are summed.  A cell with many connections is drawn by flow group: sums of goodput, means of
the window and the round-trip time.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tcplab.metrics.rates import acked_at
from tcplab.results.read import Cell

Array = np.ndarray[Any, np.dtype[np.float64]]

MOST_LINES = 8
"""Connections with a line each."""


def series(cell: Cell, bins: int) -> dict[str, Any] | None:
    """Lines of goodput, window, RTT, and the queues; None if there are no samples."""
    flows, samples, queues = cell.flows(), cell.samples(), cell.queues()
    edges = _edges(samples, queues, bins)
    if edges is None:
        return None
    return {
        "t0": round(float(edges[0] + edges[1]) / 2, 6),
        "dt": round(float(edges[1] - edges[0]), 6),
        "lines": [_line(name, rows, edges) for name, rows in _lines(flows, samples)],
        "queues": [
            _queue(str(link), rows, edges)
            for link, rows in queues.groupby("link", sort=False)
            if len(rows) > 1
        ],
    }


def pack(found: dict[str, Any]) -> str:
    """gzip in base64: a sixth of the JSON's size, undone by the browser's own decompressor."""
    text = json.dumps(found, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _edges(samples: pd.DataFrame, queues: pd.DataFrame, most: int) -> Array | None:
    """Borders of bins with equal numbers of sampling times.

    They lie half-way between samples: a slightly late sample stays in its bin.
    """
    times = samples["t_s"] if len(samples) else queues["t_s"]
    every = _spacing(np.unique(times.to_numpy(float).round(3)))
    if every <= 0:
        return None
    end = float(times.max())
    width = every * max(math.ceil(end / every / most), 1)
    return np.arange(-every / 2, end + width, width)


def _lines(flows: pd.DataFrame, samples: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Name and samples of each line: a connection or subflow, or a group if there are many."""
    known = flows.drop_duplicates("flow").set_index("flow")
    if len(known) > MOST_LINES:
        group = samples["flow"].map(known["group"]).fillna("other")
        return [(f"{name} (all)", rows) for name, rows in samples.groupby(group)]
    names = {
        int(flow): f"{group}: {cc}"
        for flow, group, cc in zip(flows["flow"], flows["group"], flows["cc_used"], strict=True)
    }
    each = []
    for key, rows in samples.groupby("flow"):
        name = names.get(int(str(key)), f"flow {key!s}")
        links = rows["link"].dropna().unique()
        if len(links):
            each += [(f"{name} on {link}", rows[rows["link"] == link]) for link in links]
        else:
            each.append((name, rows))
    return _numbered(each)


def _numbered(named: Sequence[tuple[str, pd.DataFrame]]) -> list[tuple[str, pd.DataFrame]]:
    """Repeated names get a number."""
    names = [name for name, _ in named]
    return [
        (f"{name} {names[: i + 1].count(name)}" if names.count(name) > 1 else name, rows)
        for i, (name, rows) in enumerate(named)
    ]


def _line(name: str, rows: pd.DataFrame, edges: Array) -> dict[str, Any]:
    acked = np.zeros(len(edges) - 1)
    seconds = np.zeros(len(edges) - 1)
    for _, of_flow in rows.groupby("flow"):
        t = of_flow["t_s"].to_numpy(float)
        begin = max(t[0] - _spacing(t), 0.0)
        acked += np.diff(acked_at(of_flow, edges, begin))
        seconds += np.diff(np.clip(edges, begin, t[-1]))
    # A bin at either end, or between two connections, is not alive for all of its width.
    seconds = np.minimum(seconds, np.diff(edges))
    mbit = np.divide(acked * 8e-6, seconds, out=np.full(len(acked), np.nan), where=seconds > 0)
    rtt_ms = rows["srtt_us"].where(rows["srtt_us"] > 0).astype(float) / 1e3
    return {
        "name": name,
        "mbit": _short(mbit),
        "cwnd": _short(_means(rows["t_s"], rows["cwnd_packets"], edges)),
        "rtt": _short(_means(rows["t_s"], rtt_ms, edges)),
    }


def _spacing(t: Array) -> float:
    """Between two samples; a connection started at most so long before its first."""
    return float(np.median(np.diff(t))) if len(t) > 1 else 0.0


def _queue(name: str, rows: pd.DataFrame, edges: Array) -> dict[str, Any]:
    return {
        "name": name,
        "sent": _rate_mbit(rows, "sent_bytes", edges),
        "offered": _rate_mbit(rows, "offered_bytes", edges),
        "kb": _short(_means(rows["t_s"], rows["backlog_bytes"].astype(float) / 1e3, edges)),
        "drops": _increments(rows, "drops", edges),
        "marks": _increments(rows, "marks", edges),
    }


def _rate_mbit(rows: pd.DataFrame, column: str, edges: Array) -> list[float | None]:
    """The rise of a count of bytes in each bin; empty if there is none."""
    if column not in rows or rows[column].isna().all():
        return []
    t, sent = rows["t_s"].to_numpy(float), rows[column].to_numpy(float)
    seconds = np.diff(np.clip(edges, t[0], t[-1]))
    rose = np.diff(np.interp(edges, t, sent)) * 8e-6
    return _short(np.divide(rose, seconds, out=np.full(len(rose), np.nan), where=seconds > 0))


def _means(t: pd.Series[float], values: pd.Series[Any], edges: Array) -> Array:
    bins = np.clip(np.searchsorted(edges, t.to_numpy(float), "right") - 1, 0, len(edges) - 2)
    means = pd.to_numeric(values).groupby(bins).mean().reindex(range(len(edges) - 1))
    # One late sample leaves one bin empty; a longer gap is one.
    return means.interpolate(limit=1, limit_area="inside").to_numpy(float)


def _increments(rows: pd.DataFrame, column: str, edges: Array) -> list[int]:
    """The rise of a counter in each bin; empty if it never rose."""
    counter = pd.to_numeric(rows[column]).fillna(0)
    rose = counter.diff().fillna(0).clip(lower=0)
    bins = np.clip(np.searchsorted(edges, rows["t_s"], "right") - 1, 0, len(edges) - 2)
    sums = rose.groupby(bins).sum().reindex(range(len(edges) - 1), fill_value=0)
    return [int(v) for v in sums] if sums.any() else []


def _short(values: Array) -> list[float | None]:
    """Three significant digits; None for a gap."""
    return [_three_digits(float(v)) if math.isfinite(v) else None for v in values]


def _three_digits(value: float) -> float:
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded == int(rounded) else rounded
