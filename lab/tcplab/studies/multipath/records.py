"""The record of each cell: its origin, and the figures for tables."""

from __future__ import annotations

from collections import defaultdict

from tcplab.metrics import cell_metrics
from tcplab.results.read import Campaign, Cell
from tcplab.studies import cells
from tcplab.studies.cells import Record

_VALUES = ("goodput_mbit", "standstill_s", "fct_ms_p50", "retransmit_ratio", "failed_connections")
_SLOW_START_S = 5
_PARTS = ("goodput_mbit", "link_share")


def of_campaign(campaign: Campaign) -> list[Record]:
    """The good cells of a campaign."""
    return [_record(campaign, cell) for cell in cells.good(campaign)]


def _record(campaign: Campaign, cell: Cell) -> Record:
    metrics = cell_metrics(cell)
    parts = {
        name: {key: group[key] for key in _PARTS if group.get(key) is not None}
        for name, group in metrics["groups"].items()
    }
    found = {
        **cells.origin(campaign, cell),
        "values": {key: metrics["values"][key] for key in _VALUES},
        "parts": parts,
    }
    if campaign.name == "path-shared":
        found["between_cuts"] = between_cuts(cell)
    return found


def between_cuts(cell: Cell) -> dict[str, float]:
    """A connection's packets from one reduction of a window to the next, over all of its paths,
    after slow start.  A reduction shows as a new slow start threshold."""
    samples = cell.samples()
    late = samples.loc[samples["t_s"] > _SLOW_START_S].dropna(subset=["sent_packets"])
    flows = cell.flows()
    names = dict(zip(flows["flow"], flows["group"], strict=True))
    packets: dict[str, float] = defaultdict(float)
    cuts: dict[str, int] = defaultdict(int)
    for (flow, _), path in late.groupby(["flow", "link"], dropna=False):
        ordered = path.sort_values("t_s")
        name = str(names[flow])
        packets[name] += float(ordered["sent_packets"].iloc[-1] - ordered["sent_packets"].iloc[0])
        cuts[name] += int(ordered["ssthresh_packets"].diff().fillna(0).ne(0).sum())
    return {name: packets[name] / number for name, number in cuts.items() if number}
