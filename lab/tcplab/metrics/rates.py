"""Goodput, utilisation, retransmissions, convergence: figures over a run's connections.

All functions take the tables of `tcplab.results.read`; connections marked `warmup` must have been
removed before.  None stands for values unknown from the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tcplab.metrics.fairness import jain, max_min_shares
from tcplab.results.read import Ideal

Array = np.ndarray[Any, np.dtype[np.float64]]

PAYLOAD_SHARE = 1448 / 1514
"""Payload of a full segment over its Ethernet frame: 20 bytes IPv4, 32 TCP with time stamps."""

CONVERGED_JAIN = 0.95
CONVERGED_FOR_S = 5


def flow_goodputs_mbit(flows: pd.DataFrame) -> pd.Series[float]:
    """Bytes over the connection's own duration, by row; 0 for a failed or instantaneous one."""
    if flows.empty:
        return pd.Series(dtype="float64")
    seconds = (flows["end_s"] - flows["start_s"]).astype(float)
    rate = flows["bytes"].astype(float) * 8e-6 / seconds.where(seconds > 0)
    return rate.where(flows["error"].isna(), 0.0).fillna(0.0)


def goodput_mbit(flows: pd.DataFrame) -> float | None:
    """All bytes over the time from the first start to the last end."""
    if flows.empty:
        return None
    seconds = float(flows["end_s"].max() - flows["start_s"].min())
    return float(flows["bytes"].sum()) * 8e-6 / seconds if seconds > 0 else None


def ratio_of_sums(part: pd.Series[float], whole: pd.Series[float]) -> float | None:
    """Σpart / Σwhole; None if the whole is 0 or unknown."""
    total = pd.to_numeric(whole).sum()
    return float(pd.to_numeric(part).sum() / total) if total > 0 else None


def utilisation(queues: pd.DataFrame, link: str | None, rate_mbit: float | None) -> float | None:
    """Bytes out of the queue between the first and last sample, relative to the rate's allowance.

    Slightly above 1 is possible: a token bucket may send its burst at once.
    """
    rows = queues[queues["link"] == link] if link else queues.iloc[:0]
    if len(rows) < 2 or not rate_mbit:
        return None
    seconds = float(rows["t_s"].iloc[-1] - rows["t_s"].iloc[0])
    sent = float(rows["sent_bytes"].iloc[-1] - rows["sent_bytes"].iloc[0])
    return sent * 8e-6 / (rate_mbit * seconds) if seconds > 0 else None


def acked_at(samples: pd.DataFrame, at: Array, start_s: float) -> Array:
    """One connection's acknowledged bytes at these times, interpolated.

    It starts from 0 at its start, before its first sample.  The subflows of a multipath connection
    are summed.
    """
    total = np.zeros(len(at))
    for _, rows in samples.groupby("link", dropna=False):
        t = np.concatenate([[start_s], rows["t_s"].to_numpy(float)])
        acked = np.concatenate([[0.0], rows["bytes_acked"].to_numpy(float)])
        total += np.interp(at, t, acked)
    return total


def bytes_per_second(samples: pd.DataFrame, flows: pd.DataFrame) -> pd.DataFrame:
    """Bytes acknowledged in each whole second, a column per connection.

    A second is empty for a connection alive during only part of it; a connection may miss 50 ms at
    either end.
    """
    columns: dict[int, pd.Series[float]] = {}
    lives = {
        int(flow): (float(start), float(end))
        for flow, start, end in zip(flows["flow"], flows["start_s"], flows["end_s"], strict=True)
    }
    for key, rows in samples.groupby("flow"):
        flow = int(str(key))
        if flow not in lives:
            continue
        start, end = lives[flow]
        first, last = math.ceil(start - 0.05), math.floor(end + 0.05)
        if last <= first:
            continue
        at = np.arange(first, last + 1, dtype=float)
        columns[flow] = pd.Series(np.diff(acked_at(rows, at, start)), index=at[:-1])
    return pd.DataFrame(columns).sort_index()


def jain_per_second(per_second: pd.DataFrame) -> pd.Series[float]:
    """Jain's index of each second with at least two connections alive throughout."""
    alive = per_second[per_second.notna().sum(axis=1) >= 2]
    values = {t: jain(row.dropna().tolist()) for t, row in alive.iterrows()}
    return pd.Series({t: v for t, v in values.items() if v is not None}, dtype="float64")


def convergence_s(per_second: pd.DataFrame, flows: pd.DataFrame) -> float | None:
    """From the youngest connection's start to the start of the first long enough fair stretch.

    Fair: Jain's index of at least CONVERGED_JAIN in CONVERGED_FOR_S whole seconds in a row, all
    connections alive.  None if it never converges, or has but one connection.
    """
    if len(flows) < 2:
        return None
    everyone = per_second.dropna() if per_second.shape[1] == len(flows) else per_second.iloc[:0]
    series = jain_per_second(everyone)
    start = float(flows["start_s"].max())
    fair_since: float | None = None
    for t, value in series.items():
        second = float(str(t))
        if value < CONVERGED_JAIN:
            fair_since = None
            continue
        fair_since = second if fair_since is None else fair_since
        if second - fair_since >= CONVERGED_FOR_S - 1:
            return max(fair_since - start, 0.0)
    return None


def least_max_min_share(flows: pd.DataFrame, ideal: Ideal) -> float | None:
    """The worst-served connection's goodput over its max-min fair rate.

    Meant for simultaneous connections; the links' rates count as payload.
    """
    if flows.empty or not ideal.rates_mbit:
        return None
    crosses: Sequence[Sequence[str]] = [
        ideal.groups[g].links if g in ideal.groups else () for g in flows["group"]
    ]
    capacity = {name: rate * PAYLOAD_SHARE for name, rate in ideal.rates_mbit.items()}
    shares = max_min_shares(capacity, crosses)
    goodputs = flow_goodputs_mbit(flows).tolist()
    known = [g / s for g, s in zip(goodputs, shares, strict=True) if 0 < s < math.inf]
    return min(known) if known else None


def learned(values: Sequence[float]) -> list[float]:
    """The rest without the first third: 26 to 75 of 75 connections."""
    return list(values[len(values) // 3 :])
