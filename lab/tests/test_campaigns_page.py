"""The tables of docs/measured/campaigns.md from records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthetic import write_campaign, write_pair

from tcplab.results.read import read_campaign
from tcplab.studies.campaigns import records, tables

Record = dict[str, Any]


def record(campaign: str, place: str, values: dict[str, float], **labels: Any) -> Record:
    return {"campaign": campaign, "place": place, "labels": labels, "values": values}


def fairness(place: str, qdisc: str, cc: str, difference: int, jain: float) -> Record:
    labels = {"qdisc": qdisc, "cc": cc, "rtt_difference_ms": difference}
    return record("rtt-fairness", place, {"jain": jain, "retransmit_ratio": jain / 100}, **labels)


def test_measured_rows_have_intervals_above_published_rows() -> None:
    found = [
        fairness("host", "pfifo", cc, difference, jain + 0.01 * n)
        for cc, jain in (("reno", 0.7), ("highspeed", 0.6))
        for difference in (20, 200)
        for n in range(3)
    ]
    found.append(fairness("machine", "codel", "reno", 20, 0.8))
    found.append(fairness("machine", "fq_codel", "reno", 20, 1.0))
    text = tables.renewed("<!-- table: rtt-fairness host -->\nold\n<!-- end -->\n", found)
    lines = text.splitlines()
    assert "old" not in text
    assert lines[2] == "| difference, ms | 20 | 200 | sent again, % |"
    assert lines[4] == "| reno | 0.71 (0.70 to 0.72) | 0.71 (0.70 to 0.72) | 0.70 to 0.72 |"
    assert lines[5:8:2] == ["| slides | 0.85 | 0.58 | – |", "| slides | 0.79 | 0.54 | – |"]
    assert lines[6].startswith("| highspeed |")
    assert "4 points, repetitions of each: 3." in text
    for name, jain in (("rtt-fairness", "0.80"), ("rtt-fairness-apart", "1.00")):
        other = tables.renewed(f"<!-- table: {name} machine -->\n<!-- end -->", found)
        assert f"| reno | {jain} | {jain} to {jain} |" in other and "| slides | 0.75 | – |" in other


def test_a_table_of_nothing_says_so() -> None:
    for name in ("rtt-fairness", "rtt-fairness-apart", "fct", "native", "cellular"):
        text = tables.renewed(f"<!-- table: {name} host -->\n<!-- end -->", [])
        assert "Not run yet." in text


def test_completion_times_have_retransmissions_beside_them() -> None:
    values = {
        "fct_slowdown_p50": 1.5,
        "fct_slowdown_p95": 3.0,
        "fct_slowdown_p99": 9.0,
        "retransmit_ratio": 0.0123,
    }
    found = [
        record("fct", "host", values, scale_bytes=200, incast=5, cc=cc) for cc in ("cubic", "bbr")
    ]
    table = tables.fct(found, "host")
    assert table.splitlines()[-1] == (
        "| 200 | 5 | 1 | 1.5 | 3.0 | 9.0 | 1.23 | 1.5 | 3.0 | 9.0 | 1.23 |"
    )


def test_native_rows_show_retransmissions_cpu_and_relay_lateness() -> None:
    values = {
        "goodput_mbit": 900.0,
        "retransmit_ratio": 0.001,
        "rtt_ms_p50": 41.0,
        "processor_s_per_gbit": 0.75,
        "relay_late_us_p99": 90.0,
    }
    found = [record("native", "host", values, rate=1000, queue="1 bdp", cc="tp_bbr")]
    assert tables.native(found, "host").splitlines()[-1] == (
        "| 1000 | 1 bdp | tp_bbr | 1 | 900.0 | 0.100 | 41.0 | 0.75 | 90 |"
    )


def test_a_record_has_origin_figures_and_stand_ins(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path, "pairs", {"first": ["bic"], "second": ["bic"]})
    cell = write_pair(folder, {"first": "bic", "second": "bic"}, 0.5) / "cell.json"
    cell.write_text(json.dumps({**json.loads(cell.read_text()), "stand_ins": {"bic": "tp_bic"}}))
    (found,) = records.of_campaign(read_campaign(folder))
    assert found["campaign"] == "pairs" and found["stand_ins"] == {"bic": "tp_bic"}
    assert found["values"]["jain"] > 0 and set(found["flows"]) == {"first", "second"}


def test_tools_follow_static_algorithms_on_each_trace() -> None:
    values = {
        "goodput_mbit": 4.0,
        "retransmit_ratio": 0.01,
        "rtt_ms_p50": 500.0,
        "rtt_ms_p95": 900.0,
    }
    variants = ("tcpilot-thompson", "bbr", "cubic")
    found = [
        record("cellular", "host", values, trace="lte-walk", variant=variant)
        for variant in variants
    ]
    lines = tables.cellular(found, "host").splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["cubic", "bbr", "tcpilot-thompson"]
    assert lines[2] == "| lte-walk | cubic | 1 | 4.00 | 1.00 | 500 | 900 |"
