"""Queue delay, round-trip times, flow completion times: percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tcplab.results.read import Ideal

PERCENTILES = (50, 95, 99)

SIZE_BINS_BYTES = (0, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Lower edges; the last bin is open."""
_BIN_NAMES = ("<1 kB", "1–10 kB", "10–100 kB", "100 kB–1 MB", "1–10 MB", "≥10 MB")

IDEAL_ROUND_TRIPS = 2
"""One to connect, one for the data and the last acknowledgement."""


def percentiles(name: str, values: Sequence[float] | pd.Series[float]) -> dict[str, float | None]:
    """`name_p50` and so on, by linear interpolation between order statistics."""
    known = np.asarray(pd.Series(values, dtype="float64").dropna())
    return {
        f"{name}_p{p}": float(np.percentile(known, p)) if known.size else None for p in PERCENTILES
    }


def queue_delay_ms(
    queues: pd.DataFrame, link: str | None, rate_mbit: float | None
) -> pd.Series[float]:
    """The wait of a packet arriving now: backlog over rate."""
    if not link or not rate_mbit:
        return pd.Series(dtype="float64")
    rows = queues[queues["link"] == link]
    return rows["backlog_bytes"].astype(float) * 8e-3 / rate_mbit


def rtt_ms(samples: pd.DataFrame) -> pd.Series[float]:
    """Smoothed round-trip times; without the zeros of sockets before their first measurement."""
    srtt = pd.to_numeric(samples["srtt_us"]).astype(float)
    return srtt[srtt > 0] / 1e3


def of_datagrams(rows: pd.DataFrame) -> dict[str, float | None]:
    """Delay and loss of one stream of datagrams."""
    lost = float(rows["delay_ms"].isna().mean())
    return {**percentiles("delay_ms", rows["delay_ms"]), "datagram_loss": lost}


def slowdowns(flows: pd.DataFrame, ideal: Ideal) -> pd.DataFrame:
    """Size, completion time and slowdown of each successful connection.

    Slowdown is the completion time over IDEAL_ROUND_TRIPS base round trips plus the bytes at the
    rate of the slowest link crossed; empty if the scenario lacks these.
    """
    done = flows[flows["error"].isna() & flows["fct_s"].notna()]
    fct_s = done["fct_s"].astype(float)
    ideal_s = [
        _ideal_s(str(group), str(to), float(size), ideal)
        for group, to, size in zip(done["group"], done["to"], done["bytes"], strict=True)
    ]
    return pd.DataFrame(
        {
            "bytes": done["bytes"].astype(float),
            "fct_ms": fct_s * 1e3,
            "slowdown": fct_s / pd.Series(ideal_s, index=done.index, dtype="float64"),
        }
    )


def _ideal_s(group: str, to: str, size_bytes: float, ideal: Ideal) -> float:
    known, own = ideal.groups.get(group), ideal.destinations.get(to)
    if known is None or known.base_rtt_ms is None:
        return float("nan")
    rates = [ideal.rates_mbit[link] for link in known.links if link in ideal.rates_mbit]
    rates += [own.rate_mbit] if own and own.rate_mbit else []
    sending_s = size_bytes * 8e-6 / min(rates) if rates else 0.0
    rtt_ms = own.rtt_ms if own else known.base_rtt_ms
    total = IDEAL_ROUND_TRIPS * rtt_ms / 1e3 + sending_s
    return total or float("nan")  # a path without delay and rate has no ideal


def by_size(done: pd.DataFrame) -> list[dict[str, Any]]:
    """Slowdown and completion time percentiles of each non-empty size bin."""
    if done.empty:
        return []
    edges = [*SIZE_BINS_BYTES, float("inf")]
    bins = pd.cut(done["bytes"], edges, right=False, labels=list(_BIN_NAMES))
    return [
        {
            "bin": str(name),
            "count": len(rows),
            **percentiles("fct_slowdown", rows["slowdown"]),
            **percentiles("fct_ms", rows["fct_ms"]),
        }
        for name, rows in done.groupby(bins, observed=True)
    ]


def quantiles(values: pd.Series[float], count: int = 101) -> list[float]:
    """Evenly spaced quantiles, to draw a distribution; empty for no values."""
    known = values.dropna()
    if known.empty:
        return []
    return [float(v) for v in np.quantile(known, np.linspace(0, 1, min(count, len(known))))]
