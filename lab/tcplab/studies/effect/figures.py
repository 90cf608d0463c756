"""A cell's figures of the effect: its connections' means, and tcpilot's report.

Means are over slices of time with equal weights, like the blocks in the report; the standard error
is over the slices.
"""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tcplab.results.read import Cell

SLICE_S = 20.0
"""Long enough for neighbours to be nearly independent."""
_LEAST = 3
"""Least connections of a group for a slice's mean."""
Figures = dict[str, Any]


def of_cell(cell: Cell) -> Figures:
    """By congestion control its means, by measure; and the report if tcpilot ran."""
    flows = counted(cell.flows())
    found: Figures = {"means": {cc: _means(own) for cc, own in flows.groupby("cc_used")}}
    found["all"] = _means(flows)
    tuner = cell.folder / "tuner.json"
    if tuner.exists():
        found["report"] = _report(tuner)
    return found


def counted(flows: pd.DataFrame) -> pd.DataFrame:
    """Finished connections, except in the first slice, with their outcomes."""
    good = flows[flows["error"].isna() & (flows["start_s"] >= SLICE_S)].copy()
    good["goodput"] = np.log(good["bytes"] / good["busy_s"])
    good["duration"] = np.log(good["fct_s"])
    good["retransmitted"] = good["retransmitted_packets"] / good["sent_packets"]
    good["slice"] = (good["start_s"] // SLICE_S).astype(int)
    good["prefix"] = pd.to_numeric(good["prefix"]).fillna(0).astype(int)
    kept: pd.DataFrame = good[np.isfinite(good["goodput"])]
    return kept


def _means(flows: pd.DataFrame) -> Figures:
    found: Figures = {
        "connections": len(flows),
        "mbytes": round(float(flows["bytes"].sum()) / 1e6, 3),
    }
    for name in ("goodput", "duration", "retransmitted"):
        mean, error = sliced(flows, name)
        found[name] = [_rounded(mean), _rounded(error)]
    return found


def sliced(flows: pd.DataFrame, name: str) -> tuple[float, float]:
    """Mean and standard error of slices; in a slice each prefix counts alike."""
    each = flows.groupby(["slice", "prefix"])[name].agg(["mean", "size"])
    slices = each[each["size"] >= _LEAST]["mean"].groupby("slice").mean()
    if len(slices) < 2:
        return float("nan"), float("nan")
    return float(slices.mean()), float(slices.std(ddof=1)) / sqrt(len(slices))


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None


def _report(path: Path) -> Figures | None:
    report = json.loads(path.read_text(encoding="utf-8")).get("report")
    if not report:
        return None
    keys = ("design", "since_unix_s", "pairs", "connections", "groups", "stops")
    measures = {one["name"]: {k: one[k] for k in _KEYS} for one in report["measures"]}
    return {**{key: report[key] for key in keys}, "measures": measures}


_KEYS = ("change", "low", "high", "verdict", "sums")
