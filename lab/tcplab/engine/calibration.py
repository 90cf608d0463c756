"""Calibration: does the path agree with the cell?  Measured in every run, before its traffic.

flowgen measures an idle round trip, a UDP rate, losses and this host's timers; this module computes
the expected values and compares.  A failing cell is kept and marked rejected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tcplab import topology
from tcplab.scenario.destinations import destinations
from tcplab.scenario.model import PACKET_BYTES, Cell, Link, burst_bytes
from tcplab.traffic.plan import PORT

LOSS_PACKETS = 1000
_RATE_EXCESS = 1.2
_RATE_TOLERANCE = 0.05
_RTT_TOLERANCE_MS = 1.0
_RTT_TOLERANCE = 0.05
_MOST_LATE_MS = 5.0
# One late sample in ten minutes changes no mean; a host stalled for longer has stopped the traffic,
# too.
_LONGEST_STANDSTILL_MS = 500.0
# A chance of about 1 in 10,000 of rejecting a good run.
_SIGMAS = 4.0


@dataclass(frozen=True)
class Target:
    """A measured path, and its expected properties."""

    link: Link
    """As the path should behave, whatever it is made of."""
    address: str


def targets(cell: Cell) -> list[Target]:
    """Every link, and of many destinations the first, one in the middle, and the last."""
    found = []
    for i, link in enumerate(cell.links):
        extra_ms = topology.rtts_ms(cell)[0]
        rate_mbit = cell.links[topology.owner(cell, i)].rate_mbit
        whole = replace(link, rate_mbit=rate_mbit, rtt_ms=link.rtt_ms + extra_ms)
        found.append(Target(whole, topology.receiver_address(i, 0)))
    many = destinations(cell)
    some = sorted({0, len(many) // 2, len(many) - 1}) if many else []
    for position in some:
        one = many[position]
        path = replace(topology.shaped(cell.links[0], one), name=f"to {one.address}")
        found.append(Target(path, one.address))
    return found


def arguments(target: Target) -> list[str]:
    """flowgen's arguments for one path."""
    link = target.link
    words = ["calibrate", "--to", topology.with_port(target.address, PORT + 1)]
    packets_per_s = 1000.0
    rate_mbit = link.expected_mbit()
    if rate_mbit:
        # Small packets at a twentieth of the bottleneck's rate: no queue, so no other loss.
        packets_per_s = min(packets_per_s, rate_mbit * 1e6 / 20 / (106 * 8))
        seconds = max(0.5, 60 * PACKET_BYTES * 8 / (rate_mbit * 1e6))
        if link.police_mbit:  # a full bucket goes through besides, and must not count for much
            seconds = max(seconds, 40 * burst_bytes(link) * 8 / (rate_mbit * 1e6))
        words += ["--rate-mbit", f"{rate_mbit * _RATE_EXCESS:g}"]
        words += ["--rate-seconds", f"{seconds:g}"]
    packets = _loss_packets(link)
    words += ["--loss-packets", str(packets), "--loss-packets-per-s", f"{packets_per_s:g}"]
    return words


def _loss_packets(link: Link) -> int:
    return LOSS_PACKETS if link.loss_percent else LOSS_PACKETS // 5


def verdict(cell: Cell, measured: list[dict[str, Any]], play: dict[str, Any]) -> dict[str, Any]:
    """For every quantity the expected and the measured value, and whether they agree; of several
    paths the worst."""
    found: dict[str, Any] = {}
    for target, report in zip(targets(cell), measured, strict=True):
        for name, judged in _judge(target.link, report).items():
            if name not in found or (found[name]["ok"] and not judged["ok"]):
                found[name] = judged
    for name, most_ms in (
        ("sample_late_ms_p99", max(cell.sample_ms, _MOST_LATE_MS)),
        ("sample_late_ms_max", max(cell.sample_ms, _LONGEST_STANDSTILL_MS)),
    ):
        found[name] = {"expected": 0.0, "measured": play[name], "ok": play[name] <= most_ms}
    return found


def _judge(link: Link, report: dict[str, Any]) -> dict[str, Any]:
    late_ms = report["timer_late_ms_p99"]
    found: dict[str, Any] = {
        "idle_rtt_ms": _rtt(link, report),
        "loss": _loss(link, report),
        "timer_late_ms_p99": {
            "expected": 0.0,
            "measured": late_ms,
            "ok": late_ms <= _MOST_LATE_MS,
        },
    }
    if link.expected_mbit():
        found["udp_rate_mbit"] = _rate(link, report)
    for entry in found.values():
        entry["link"] = link.name
    return found


def _rtt(link: Link, report: dict[str, Any]) -> dict[str, Any]:
    measured = report["idle_rtt_ms"]
    # Packets on the way back wait for their slot, half of one on average.
    expected_ms = link.rtt_ms + link.back_slot_ms / 2
    tolerance = _RTT_TOLERANCE_MS + _RTT_TOLERANCE * expected_ms + link.jitter_ms
    tolerance += link.back_slot_ms / 2
    ok = measured is not None and abs(measured - expected_ms) <= tolerance
    return {"expected": expected_ms, "measured": measured, "ok": ok}


def _rate(link: Link, report: dict[str, Any]) -> dict[str, Any]:
    rate_mbit = link.expected_mbit() or 0.0
    # Losses are behind the bottleneck, so less arrives than it lets through.
    expected = rate_mbit * (1 - link.loss_percent / 100)
    measured = report["udp_rate_mbit"]
    ok = measured is not None and abs(measured / expected - 1) <= _rate_tolerance(link)
    return {"expected": expected, "measured": measured, "ok": ok}


def _rate_tolerance(link: Link) -> float:
    """Random losses make the arriving rate random too."""
    if not link.loss_percent:
        return _RATE_TOLERANCE
    packets = max(0.5 * (link.expected_mbit() or 0) * 1e6 / (PACKET_BYTES * 8), 60)
    share = link.loss_percent / 100
    spread = math.sqrt(share * (1 - share) * link.loss_burst_packets * 2 / packets)
    return _RATE_TOLERANCE + _SIGMAS * spread


def _loss(link: Link, report: dict[str, Any]) -> dict[str, Any]:
    """Independent losses are binomial; bursts of mean b multiply the variance by about 2b."""
    sent, lost = report["loss_packets_sent"], report["loss_packets_lost"]
    share = link.loss_percent / 100
    burst = 1.0 if link.loss_burst_packets <= 1 else 2 * link.loss_burst_packets
    spread = math.sqrt(sent * share * (1 - share) * burst)
    ok = abs(lost - sent * share) <= _SIGMAS * spread + (1 if share else 0)
    return {"expected": share, "measured": lost / sent if sent else None, "ok": ok}
