"""The record of each cell: its origin, the stand-ins for missing algorithms, and the figures of
tables."""

from __future__ import annotations

from tcplab.metrics import cell_metrics
from tcplab.results.read import Campaign, Cell
from tcplab.studies import cells
from tcplab.studies.cells import Record

_VALUES = (
    "goodput_mbit",
    "retransmit_ratio",
    "jain",
    "rtt_ms_p50",
    "rtt_ms_p95",
    "queue_delay_ms_p95",
    "fct_ms_p50",
    "fct_ms_p95",
    "fct_ms_p99",
    "fct_slowdown_p50",
    "fct_slowdown_p95",
    "fct_slowdown_p99",
    "failed_connections",
    "utilisation",
    "processor_s_per_gbit",
)


def of_campaign(campaign: Campaign) -> list[Record]:
    """The good cells of a campaign."""
    return [_record(campaign, cell) for cell in cells.good(campaign)]


def _record(campaign: Campaign, cell: Cell) -> Record:
    found = cell_metrics(cell)
    late = cell.calibration.get("relay_late_us_p99")
    values = {name: found["values"].get(name) for name in _VALUES}
    if late is not None:
        values["relay_late_us_p99"] = late.measured
    stand_ins = cell.raw.get("stand_ins")
    return {
        **cells.origin(campaign, cell),
        **({"stand_ins": stand_ins} if stand_ins else {}),
        "values": {name: cells.rounded(v) for name, v in values.items() if v is not None},
        "flows": {
            name: cells.rounded(group["goodput_mbit"])
            for name, group in found["groups"].items()
            if group.get("goodput_mbit") is not None
        },
    }
