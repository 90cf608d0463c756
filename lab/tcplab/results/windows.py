"""Windows beyond any algorithm's.

A patched kernel skips programs of congestion controls at times, and takes garbage on its stack for
their answer: a threshold or a window of many millions of packets.  Such a cell says nothing about
its algorithm.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

MOST_PACKETS = 1_000_000
"""1.4 GB under way: 110 ms at 100 Gbit/s."""
_COLUMNS = ["cwnd_packets", "ssthresh_packets"]


def largest(samples: pd.DataFrame) -> float:
    """The largest of all windows and thresholds, in packets; an unset threshold does not count."""
    return float(samples[_COLUMNS].fillna(0).to_numpy(dtype=float).max(initial=0.0))


def verdict(samples: pd.DataFrame) -> dict[str, Any]:
    """The check of the windows, for a cell's calibration."""
    found = largest(samples)
    entry = {"expected": float(MOST_PACKETS), "measured": found, "ok": found <= MOST_PACKETS}
    return {"window_packets_max": entry}
