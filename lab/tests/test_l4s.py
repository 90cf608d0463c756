"""docs/measured/l4s.md: packets of captures, figures of flows, tables of records."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from tcplab import published
from tcplab.results import writer
from tcplab.studies.l4s import packets, records, tables

PRAGUE, CUBIC = 40001, 40002


def frame(port: int, ident: int, tos: int, flags: int = 0x010) -> bytes:
    ethernet = bytes(12) + b"\x08\x00"
    ip = struct.pack("!BBHHHBBH8x", 0x45, tos, 1500, ident, 0x4000, 64, 6, 0)
    return (
        ethernet
        + ip
        + struct.pack("!HHIIHHHH", port, 5201, 1000 + ident, 7, 0x5000 | flags, 0, 0, 0)
    )


def capture(path: Path, rows: list[tuple[float, bytes, int]]) -> Path:
    """A file as flowgen writes it: time, the packet's beginning, and its length on the wire."""
    text = struct.pack("=IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 64, 1)
    for t_s, kept, length in rows:
        seconds = int(t_s)
        text += (
            struct.pack("=IIII", seconds, round((t_s - seconds) * 1e9), len(kept), length) + kept
        )
    path.write_bytes(text)
    return path


def test_capture_yields_ecn_and_flags_of_tcp_only(tmp_path: Path) -> None:
    syn = frame(PRAGUE, 1, 0b01, flags=0x1C2)
    arp = bytes(12) + b"\x08\x06" + bytes(40)
    path = capture(
        tmp_path / "a.pcap", [(5.25, syn, 74), (5.5, arp, 54), (6, frame(CUBIC, 2, 0), 1514)]
    )
    found = packets.read(path)
    assert found["port"].tolist() == [PRAGUE, CUBIC]
    assert [packets.CODEPOINTS[bits] for bits in found["ecn"]] == ["ECT(1)", "Not-ECT"]
    assert found["flags"].tolist() == [0x1C2, 0x010]  # AE, CWR and ECE ask for accurate ECN
    assert found["t_s"].tolist() == [5.25, 6.0]
    path.write_bytes(b"no capture at all")
    with pytest.raises(ValueError, match="no capture with nanoseconds"):
        packets.read(path)


def test_queue_delay_is_relative_to_the_fastest_packet(tmp_path: Path) -> None:
    sent = [(1.0, frame(PRAGUE, 1, 2), 1514), (1.1, frame(CUBIC, 1, 0), 1514)]
    sent += [(1.2, frame(CUBIC, 2, 0), 1514), (1.3, frame(CUBIC, 3, 0), 66)]
    # The router makes ECT(1) or CE of ECT(0); a packet is lost, and an acknowledgement is no data.
    came = [(1.0115, frame(PRAGUE, 1, 3), 1514), (1.11, frame(CUBIC, 1, 0), 1514)]
    came += [(1.4, frame(CUBIC, 3, 0), 66)]
    found = packets.delays(
        packets.read(capture(tmp_path / "l", sent)), packets.read(capture(tmp_path / "r", came))
    )
    assert found["queued_ms"].tolist() == pytest.approx([1.5, 0.0])
    assert found["port"].tolist() == [PRAGUE, CUBIC]


def a_cell(folder: Path) -> Any:
    """4 s: Prague sends 100 packets a second, with 1 ms of queueing, CUBIC 50 with 20 ms; each
    twentieth of Prague's is marked."""
    left, right = [], []
    for i in range(400):
        t_s = 100 + i / 100
        tos = 3 if i % 20 == 0 else 1
        left.append((t_s, frame(PRAGUE, i, 2), 1514))
        right.append((t_s + 0.01 + (0.001 if i else 0), frame(PRAGUE, i, tos), 1514))
        if i % 2:
            left.append((t_s, frame(CUBIC, i, 0), 1514))
            right.append((t_s + 0.03, frame(CUBIC, i, 0), 1514))
    capture(folder / "left.pcap", left)
    capture(folder / "right.pcap", right)
    flows = {
        "group": ["first", "second"],
        "local_port": [PRAGUE, CUBIC],
        "cc_used": ["tp_prague", "cubic"],
        "sent_packets": [400, 200],
        "retransmitted_packets": [0, 3],
    }
    pd.DataFrame(flows).to_parquet(folder / "flows.parquet")
    ideal = SimpleNamespace(duration_s=4.0, rates_mbit={"bottleneck": 4.0})
    return cast(Any, SimpleNamespace(folder=folder, ideal=ideal))


def test_flows_have_queue_delay_share_marks_and_retransmissions(tmp_path: Path) -> None:
    found = records.of_cell(a_cell(tmp_path), from_s=2.0)
    first, second = found["flows"]["first"], found["flows"]["second"]
    assert (first["queue"], second["queue"]) == ("L", "C")
    assert (first["queued_ms_p50"], second["queued_ms_p99"]) == pytest.approx((1.0, 20.0), rel=1e-3)
    assert first["share"] == pytest.approx(2 / 3, abs=0.01)
    assert first["wire_mbit"] == pytest.approx(100 * 1514 * 8e-6, rel=0.02)
    assert first["mark_ratio"] == pytest.approx(0.05, abs=0.005) and second["mark_ratio"] == 0
    assert (first["retransmit_ratio"], second["retransmit_ratio"]) == (0, 0.015)
    assert found["utilisation"] == pytest.approx(150 * 1514 * 8e-6 / 4, rel=0.02)


def test_published_shares_stand_beside_ours() -> None:
    figures = published.load("l4s-tests").figures
    assert len(figures) == 48
    flow = {
        "cc": "tp_prague",
        "queue": "L",
        "wire_mbit": 6.5,
        "share": 0.66,
        "retransmit_ratio": 0.0,
    }
    flow |= {"queued_ms_p50": 0.5, "queued_ms_p99": 2.0, "mark_ratio": 0.1}
    labels = {"queue": "dualpi2", "rate": 10, "rtt": 20, "pair": "prague-cubic"}
    record = {"labels": labels, "utilisation": 0.98, "quick": False, "flows": {"first": flow}}
    # 6.01 of 6.01 + 3.23 Mbit/s.
    row = "| 10 | 20 | prague (L) | 6.50 | 0.00 | 66 | 65 | 0.50 | 2.00 | 10.00 | 98.0 |\n"
    assert tables.of_pair([record], "dualpi2", "prague-cubic").endswith(row)
    quick = {**record, "quick": True, "utilisation": 0.5}
    assert tables.of_pair([quick, record], "dualpi2", "prague-cubic").endswith(row)
    alone = tables.of_pair([quick], "dualpi2", "prague-cubic")
    assert "| 10 (quick) | 20 | prague (L) |" in alone and alone.endswith("| 50.0 |\n")
    assert tables.of_pair([record], "fq_codel", "prague-cubic") == "Not run yet.\n"
    elsewhere = {**record, "labels": labels | {"rtt": 40}}
    assert "| 66 | – |" in tables.of_pair([elsewhere], "dualpi2", "prague-cubic")


def test_counters_of_unknown_qdiscs_stay_readable(tmp_path: Path) -> None:
    said = '[{"kind":"dualpi2","dev":"b0","options":{[Unknown qdisc, optlen=112] },"drops":3}]'
    (tmp_path / "state").write_text(f"@@ r1\n{said}\n")
    (found,) = writer._qdiscs(tmp_path / "state")
    assert (found["ns"], found["drops"], found["options"]) == ("r1", 3, {"bytes": 112})
