"""The record of each cell: its origin, and the figures of each of its flows."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tcplab.results.read import Campaign, Cell
from tcplab.studies import cells
from tcplab.studies.cells import Record
from tcplab.studies.l4s import packets

_FROM_S = 8.0
"""Slow start, and what it left in the queue, are over by then."""
_QUICK_FROM_S = 4.0
_L4S = ("ECT(1)", "CE")


def of_campaign(campaign: Campaign) -> list[Record]:
    """The good cells of a campaign."""
    return [_record(campaign, cell) for cell in cells.good(campaign)]


def _record(campaign: Campaign, cell: Cell) -> Record:
    quick = bool(campaign.manifest["quick"])
    return {
        **cells.origin(campaign, cell),
        "quick": quick,
        **of_cell(cell, _QUICK_FROM_S if quick else _FROM_S),
    }


def of_cell(cell: Cell, from_s: float = _FROM_S) -> Record:
    """Figures of the time from `from_s` to the end: the link's utilisation, and for each flow its
    rate on the wire, its share of all, queue delay, marks, and queue; and of the whole run, packets
    retransmitted of those sent."""
    duration_s = float(cell.ideal.duration_s or 0)
    rate_mbit = next(iter(cell.ideal.rates_mbit.values()))
    came = packets.delays(
        packets.read(cell.folder / "left.pcap"), packets.read(cell.folder / "right.pcap")
    )
    start_s = float(came["t_s"].min())
    late = came[(came["t_s"] >= start_s + from_s) & (came["t_s"] < start_s + duration_s)]
    seconds = duration_s - from_s
    flows = pd.read_parquet(cell.folder / "flows.parquet")
    rates = late.groupby("port")["bytes"].sum() * 8e-6 / seconds
    return {
        "from_s": from_s,
        "seconds": seconds,
        "utilisation": cells.rounded(float(rates.sum()) / rate_mbit),
        "flows": {
            str(row.group): _of_flow(row, late[late["port"] == row.local_port], rates)
            for row in flows.itertuples()
        },
    }


def _of_flow(row: Any, came: pd.DataFrame, rates: pd.Series[float]) -> Record:
    rate = float(rates.get(row.local_port, 0.0))
    codepoints = came["ecn"].map(lambda bits: packets.CODEPOINTS[bits])
    sent = float(row.sent_packets)
    again = float(row.retransmitted_packets) / sent if sent else None
    return {
        "cc": str(row.cc_used),
        "queue": "L" if codepoints.isin(_L4S).mean() > 0.5 else "C",
        "packets": len(came),
        "wire_mbit": cells.rounded(rate),
        "share": cells.rounded(rate / float(rates.sum())) if len(rates) else None,
        "retransmit_ratio": cells.rounded(again),
        "mark_ratio": cells.rounded(float((codepoints == "CE").mean())) if len(came) else None,
        "queued_ms_p50": cells.rounded(packets.percentile(came["queued_ms"], 50)),
        "queued_ms_p99": cells.rounded(packets.percentile(came["queued_ms"], 99)),
    }
