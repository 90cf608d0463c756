"""A run in phases: the data carried, and sent again, between two changes of the path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

_COUNTERS = ("bytes_acked", "retransmitted_packets", "sent_packets")


def of_phases(
    samples: pd.DataFrame, flows: pd.DataFrame, bounds_s: tuple[float, ...]
) -> dict[str, dict[str, float | None]]:
    """Goodput, retransmitted share and utility from each bound to the next, by `phase1` and so on.

    The sockets' counters are interpolated between samples, and count from the connection's start
    to its end.  Empty unless the path changed.
    """
    if len(bounds_s) < 3 or samples.empty or samples["sent_packets"].isna().all():
        return {}
    risen = _risen(samples, flows, np.asarray(bounds_s))
    found = {}
    for number in range(len(bounds_s) - 1):
        carried, again, sent = (float(risen[counter][number]) for counter in _COUNTERS)
        share = min(again / sent, 1.0) if sent > 0 else 0.0
        goodput = carried * 8e-6 / (bounds_s[number + 1] - bounds_s[number])
        found[f"phase{number + 1}"] = {
            "goodput_mbit": goodput,
            "retransmit_ratio": share if sent > 0 else None,
            "utility_mbit": goodput * (1 - share),
            "retransmit_ratio_all": share if sent > 0 else None,
        }
    return found


def _risen(samples: pd.DataFrame, flows: pd.DataFrame, bounds: Any) -> dict[str, Any]:
    """How far each counter rose in each phase, all connections together."""
    total = {counter: np.zeros(len(bounds) - 1) for counter in _COUNTERS}
    starts = dict(zip(flows["flow"], flows["start_s"], strict=True))
    for (flow, _), rows in samples.groupby(["flow", "link"], dropna=False):
        times = np.concatenate([[float(starts.get(flow, bounds[0]))], rows["t_s"].to_numpy(float)])
        for counter in _COUNTERS:
            values = pd.to_numeric(rows[counter]).to_numpy(float)
            known = np.concatenate([[0.0], values])
            total[counter] += np.diff(np.interp(bounds, times, known))
    return total
