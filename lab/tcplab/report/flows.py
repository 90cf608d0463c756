"""The flows of each point by their names in the scenario, with their goodput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcplab.catalogue import metric, percent

FLOW_METRICS = ("goodput_mbit", "retransmit_ratio", "rtt_ms_p50")
DATAGRAM_METRICS = ("delay_ms_p50", "delay_ms_p99", "datagram_loss")
_MARKS = ("goodput_mbit", "delay_ms_p50")
"""A group of connections with one of these is a flow."""


@dataclass(frozen=True)
class FlowRow:
    """One flow of one point."""

    labels: dict[str, Any]
    flow: str
    figures: dict[str, Mapping[str, Any] | None]
    """Medians with their intervals, as in summary.json, by metric."""


def flow_rows(points: Sequence[Mapping[str, Any]]) -> list[FlowRow]:
    """A row per flow and point; none for a campaign whose points have one flow each, since the maps
    already show these."""
    groups = [_groups(point) for point in points]
    if all(len(found) < 2 for found in groups):
        return []
    return [
        FlowRow(
            dict(point["labels"]),
            group,
            {
                name: point["metrics"].get(f"{name}.{group}")
                for name in (*FLOW_METRICS, *DATAGRAM_METRICS)
            },
        )
        for point, found in zip(points, groups, strict=True)
        for group in found
    ]


def flow_metrics(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures of a flow: those of datagrams too, if there were any."""
    names = {name.partition(".")[0] for point in points for name in point["metrics"]}
    return [*FLOW_METRICS, *(DATAGRAM_METRICS if DATAGRAM_METRICS[0] in names else ())]


def _groups(point: Mapping[str, Any]) -> list[str]:
    names = (name.partition(".") for name in point["metrics"])
    return sorted(group for base, _, group in names if base in _MARKS and group)


def figure(known: Mapping[str, Any] | None, name: str, price: Mapping[str, Any] | None) -> str:
    """Median, interval if repetitions give one, and the price of a goodput."""
    if known is None:
        return ""
    digits = metric(name).digits
    shown = f"{known['median']:.{digits}f}"
    if known["count"] > 1:
        shown += f" ({known['low']:.{digits}f} to {known['high']:.{digits}f})"
    return shown if price is None else f"{shown}; {percent(price['median'])}"
