"""Utility: goodput reduced by retransmissions.

A connection's utility is its goodput times its share of first transmissions: a byte sent again
takes a place in a shared queue.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from tcplab.metrics.rates import flow_goodputs_mbit, ratio_of_sums


def utilities_mbit(flows: pd.DataFrame) -> pd.Series[float]:
    """By row; 0 for a failed connection."""
    if flows.empty:
        return pd.Series(dtype="float64")
    sent = pd.to_numeric(flows["sent_packets"]).astype(float)
    again = pd.to_numeric(flows["retransmitted_packets"]).astype(float)
    # More may be sent again than sent once: sent data is counted in whole segments.
    share = (again / sent.where(sent > 0)).fillna(0.0).clip(0.0, 1.0)
    return flow_goodputs_mbit(flows) * (1 - share)


def geometric_mean(values: pd.Series[float]) -> float | None:
    """None for no values; 0 if one of them is 0."""
    if values.empty:
        return None
    if bool((values <= 0).any()):
        return 0.0
    return math.exp(sum(math.log(value) for value in values) / len(values))


def of_flows(everything: pd.DataFrame, counted: pd.DataFrame) -> dict[str, float | None]:
    """Over all connections, and without warm-up."""
    whole, learned = utilities_mbit(everything), utilities_mbit(counted)
    return {
        "utility_mbit": float(whole.mean()) if len(whole) else None,
        "learned_utility_mbit": float(learned.mean()) if len(learned) else None,
        "utility_mbit_geometric": geometric_mean(whole),
        "retransmit_ratio_all": ratio_of_sums(
            everything["retransmitted_packets"], everything["sent_packets"]
        ),
    }


def of_destinations(flows: pd.DataFrame, paths: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each visited destination, with its path."""
    if not paths:
        return []
    rows = flows.assign(goodput_mbit=flow_goodputs_mbit(flows), utility_mbit=utilities_mbit(flows))
    return [
        {"to": to, **vars(paths[str(to)]), **_of_destination(here)}
        for to, here in rows.groupby("to")
        if str(to) in paths
    ]


def _of_destination(rows: pd.DataFrame) -> dict[str, Any]:
    share = ratio_of_sums(rows["retransmitted_packets"], rows["sent_packets"])
    return {
        "connections": len(rows),
        "failed": int(rows["error"].notna().sum()),
        "goodput_mbit": round(float(rows["goodput_mbit"].mean()), 4),
        "retransmit_ratio": None if share is None else round(share, 5),
        "utility_mbit": round(float(rows["utility_mbit"].mean()), 4),
    }
