"""Cost of a tuner's programs, from samples of their counters."""

from __future__ import annotations

import numpy as np
import pandas as pd

Values = dict[str, float | None]


def of_flows(programs: pd.DataFrame, flows: pd.DataFrame) -> Values:
    """Time per event and per connection, from the last sample before the connections to the first
    after them; empty unless it was measured and there was an event.

    The time per event is the median of the samples' intervals, weighted by events: a timer firing
    during a program is counted with it.
    """
    if programs.empty or flows.empty:
        return {}
    sums = programs.groupby("t_s")[["runs", "ns"]].sum().sort_index()
    before = sums.index[sums.index <= float(flows["start_s"].min())]
    after = sums.index[sums.index >= float(flows["end_s"].max())]
    first = before.max() if len(before) else sums.index.min()
    last = after.min() if len(after) else sums.index.max()
    risen = sums.loc[first:last].diff().dropna()
    risen = risen[risen["runs"] > 0]
    if risen.empty:
        return {}
    each = float(weighted_median(risen["ns"] / risen["runs"], risen["runs"]))
    events = float(risen["runs"].sum()) / len(flows)
    return {
        "program_ns_per_event": each,
        "program_events": events,
        "program_ns": each * events,
    }


def weighted_median(values: pd.Series[float], weights: pd.Series[float]) -> float:
    """The value at half of the weight."""
    order = np.argsort(values.to_numpy(float), kind="stable")
    reached = np.cumsum(weights.to_numpy(float)[order])
    at = int(np.searchsorted(reached, reached[-1] / 2))
    return float(values.to_numpy(float)[order][at])
