"""The record of each cell: its origin, the figures of the compared flow, and for `laws` what its
samples show."""

from __future__ import annotations

from dataclasses import asdict

from tcplab.metrics import cell_metrics
from tcplab.results.read import Campaign, Cell
from tcplab.studies import cells
from tcplab.studies.cc import laws
from tcplab.studies.cells import Record

_FLOW = "one"
"""The compared flow."""
_VALUES = ("goodput_mbit", "cwnd_packets", "rtt_ms_mean", "retransmit_ratio")


def of_campaign(campaign: Campaign) -> list[Record]:
    """The good cells of a campaign."""
    return [_record(campaign, cell) for cell in cells.good(campaign)]


def _record(campaign: Campaign, cell: Cell) -> Record:
    metrics = cell.metrics() or cell_metrics(cell)
    values = {name: metrics["groups"][_FLOW].get(name) for name in _VALUES}
    values["ack_ns"] = metrics["values"].get("ack_ns")
    found = {
        **cells.origin(campaign, cell),
        "values": {name: cells.rounded(v) for name, v in values.items() if v is not None},
    }
    if campaign.name == "laws":
        law = asdict(laws.of_samples(str(cell.labels["cc"]), cell.samples()))
        found["law"] = {name: cells.rounded(value) for name, value in law.items()}
    return found
