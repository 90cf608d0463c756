"""A cell in Flent's data format, version 4, for plots by `flent -i` and flent-gui.

A cell becomes a result of Flent's test `tcp_nup`: a series of goodput per connection, their
average, sum and Jain's index, and as raw values the window, the round-trip time and the rates
of each sample.  Flent's ping has no counterpart: RTT is the sockets' own.
https://flent.org/data-format.html
"""

from __future__ import annotations

import gzip
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tcplab.metrics.fairness import jain
from tcplab.metrics.rates import acked_at
from tcplab.results.read import Campaign, Cell

VERSION = 4
TEST = "tcp_nup"
STEP_S = 0.2
"""Flent's own default step."""

Series = list[float | None]


def write_flent(campaign: Campaign, cell: Cell, folder: Path) -> Path | None:
    """Writes `<cell>.flent.gz` into an existing folder; None for a cell without samples."""
    found = as_flent(campaign, cell)
    if found is None:
        return None
    target = folder / f"{campaign.folder.name}.{cell.id}.flent.gz"
    with gzip.open(target, "wt", encoding="utf-8") as file:
        json.dump(found, file, indent=1, sort_keys=True)
    return target


def as_flent(campaign: Campaign, cell: Cell) -> dict[str, Any] | None:
    """The content of Flent's file; None for a cell without samples."""
    flows, samples = cell.flows(), cell.samples()
    if samples.empty or flows.empty:
        return None
    length = float(samples["t_s"].max())
    at = np.arange(0, length + 1e-9, STEP_S)
    start = _start(campaign)
    names = {int(f): f"TCP upload::{i + 1}" for i, f in enumerate(samples["flow"].unique())}
    results: dict[str, Series] = {}
    raw: dict[str, list[dict[str, Any]]] = {}
    meta: dict[str, dict[str, Any]] = {}
    for flow, rows in samples.groupby("flow"):
        of_flow = flows[flows["flow"] == flow]
        name = names[int(str(flow))]
        begin = float(of_flow["start_s"].iloc[0]) if len(of_flow) else 0.0
        end = float(of_flow["end_s"].iloc[0]) if len(of_flow) else length
        results[name] = _goodput_mbit(rows, at, begin, end)
        raw[name] = [_raw(row, start) for row in _with_rate(rows, begin).to_dict("records")]
        meta[name] = _series_meta(of_flow, results[name])
    each = [list(v) for v in zip(*results.values(), strict=True)]
    results["TCP upload sum"] = [sum(known) if (known := _known(v)) else None for v in each]
    results["TCP upload avg"] = [_mean(_known(v)) for v in each]
    results["TCP upload fairness"] = [jain(_known(v)) for v in each]
    return {
        "version": VERSION,
        "x_values": [round(float(t), 3) for t in at],
        "results": results,
        "raw_values": raw,
        "metadata": _metadata(campaign, cell, start, length, len(names)) | {"SERIES_META": meta},
    }


def _goodput_mbit(rows: pd.DataFrame, at: np.ndarray[Any, Any], begin: float, end: float) -> Series:
    """Over the step before each time; None while the connection was not alive."""
    acked = acked_at(rows, np.concatenate([[at[0] - STEP_S], at]), begin)
    rate = np.diff(acked) * 8e-6 / STEP_S
    return [float(r) if begin < t <= end + STEP_S else None for t, r in zip(at, rate, strict=True)]


def _with_rate(rows: pd.DataFrame, begin: float) -> pd.DataFrame:
    """Each sample with the goodput since the one before, in Mbit/s."""
    since = rows["t_s"].diff().fillna(rows["t_s"] - begin)
    sent = rows["bytes_acked"].diff().fillna(rows["bytes_acked"])
    return rows.assign(val=sent * 8e-6 / since.where(since > 0))


def _raw(row: dict[Any, Any], start: datetime) -> dict[str, Any]:
    """One sample under the names in Flent's plots of TCP statistics."""
    found = {
        "t": start.timestamp() + row["t_s"],
        "val": row["val"],
        "tcp_cwnd": row["cwnd_packets"],
        "tcp_rtt": row["srtt_us"] / 1e3,
        "tcp_delivery_rate": row["delivery_rate"] * 8e-6,
        "tcp_pacing_rate": row["pacing_rate"] * 8e-6,
    }
    return {k: v for k, v in found.items() if v is not None and math.isfinite(v)}


def _series_meta(of_flow: pd.DataFrame, values: Series) -> dict[str, Any]:
    known: dict[str, Any] = {"UNITS": "Mbits/s", "MEAN_VALUE": _mean(_known(values))}
    if len(of_flow):
        row = of_flow.iloc[0]
        known |= {"CONG_CONTROL": row["cc_used"], "GROUP": row["group"]}
    return known


def _metadata(
    campaign: Campaign, cell: Cell, start: datetime, length: float, streams: int
) -> dict[str, Any]:
    manifest = campaign.manifest
    labels = " ".join(f"{axis}={value}" for axis, value in cell.labels.items())
    stamp = start.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "NAME": TEST,
        "TITLE": f"{campaign.name} {labels} repetition {cell.repetition}",
        "NOTE": f"tcplab {cell.id}: {cell.status}",
        "TIME": stamp,
        "T0": stamp,
        "LENGTH": math.ceil(length),
        "TOTAL_LENGTH": math.ceil(length),
        "STEP_SIZE": STEP_S,
        "HOST": "right",
        "HOSTS": ["right"],
        "LOCAL_HOST": "left",
        "IP_VERSION": 4,
        "TEST_PARAMETERS": {"upload_streams": str(streams)},
        "DATA_FILENAME": f"{campaign.folder.name}.{cell.id}.flent.gz",
        "BATCH_NAME": campaign.name,
        "BATCH_TITLE": campaign.title,
        "BATCH_TIME": stamp,
        "FLENT_VERSION": "2.3.0",
        "KERNEL_NAME": "Linux",
        "KERNEL_RELEASE": cell.kernel,
        "SYSCTLS": cell.raw.get("sysctls") or {},
        "TCPLAB_COMMIT": manifest.get("commit"),
        "TCPLAB_LABELS": cell.labels,
    }


def _start(campaign: Campaign) -> datetime:
    """The campaign's start; cells in virtual time have no other date."""
    text = str(campaign.manifest.get("started") or "")
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _known(values: list[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
