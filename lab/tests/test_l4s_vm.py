"""Prague at DualPI2 in a real machine of 7.2.  Needs the emulator, cargo's release build (or
$TCPLAB_BINARIES), and root to build the module on first use."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_lab_vm import out, run

from tcplab.results.read import read_cell
from tcplab.studies.l4s import packets, records

__all__ = ["out"]
pytestmark = pytest.mark.vm

SHARED = """\
title = "Prague beside CUBIC"
duration_s = 6

[[link]]
rate_mbit = 10
rtt_ms = 20
qdisc = "dualpi2"
queue = "1000 packets"
ect1 = true

[[flow]]
name = "first"
cc = "tp_prague"

[[flow]]
name = "second"
cc = "cubic"

[sysctl]
"net.ipv4.tcp_ecn" = "5"

[capture]
at = "both"
snap_bytes = 64
"""
_ASKS = 0x1C2
"""AE, CWR, ECE and SYN: RFC 9768, section 3.1.1."""


def test_prague_negotiates_accecn_and_keeps_l_queue_short(out: Path) -> None:
    outcome, answer = run(out, SHARED, "--kernel", "7.2")
    assert outcome["ok"] == 1, answer.stderr
    (place,) = (Path(outcome["folder"]) / "cells").iterdir()
    cell = read_cell(place)
    sent = packets.read(place / "left.pcap")
    syns = sent[(sent["flags"] & 0x12) == 0x02]
    assert sorted(syns["flags"]) == [0x002, _ASKS]
    flows = records.of_cell(cell, from_s=2.0)["flows"]
    first, second = flows["first"], flows["second"]
    assert (first["queue"], second["queue"]) == ("L", "C")
    assert first["retransmit_ratio"] == 0 and first["mark_ratio"] > 0.01
    assert first["queued_ms_p99"] < second["queued_ms_p50"]
    assert min(first["wire_mbit"], second["wire_mbit"]) > 1.5
