"""Results by destination, as text: a row for each address of each point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from tcplab.catalogue import percent
from tcplab.metrics import cell_metrics
from tcplab.results.read import Campaign

HEAD = ("destination", "prefix", "RTT, ms", "rate, Mbit/s", "loss", "connections", "failed",
        "goodput, Mbit/s", "retransmitted", "utility, Mbit/s")  # fmt: skip


def destination_rows(campaign: Campaign) -> list[list[str]]:
    """The labels of a point, then HEAD; figures are means over repetitions."""
    found: dict[tuple[tuple[str, ...], str], list[Mapping[str, Any]]] = {}
    for cell in campaign.cells():
        if cell.status != "ok":
            continue
        labels = tuple(str(cell.labels.get(axis, "")) for axis in campaign.axes)
        for row in (cell.metrics() or cell_metrics(cell)).get("destinations", []):
            found.setdefault((labels, row["to"]), []).append(row)
    return [[*labels, to, *_figures(rows)] for (labels, to), rows in found.items()]


def _figures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    first = rows[0]
    shares = [row["retransmit_ratio"] for row in rows if row["retransmit_ratio"] is not None]
    return [
        str(first["prefix"]),
        f"{first['rtt_ms']:g}",
        f"{first['rate_mbit']:g}" if first["rate_mbit"] else "",
        f"{first['loss_percent']:g} %",
        str(sum(row["connections"] for row in rows)),
        str(sum(row["failed"] for row in rows)),
        f"{mean(row['goodput_mbit'] for row in rows):.2f}",
        percent(mean(shares)) if shares else "",
        f"{mean(row['utility_mbit'] for row in rows):.2f}",
    ]
