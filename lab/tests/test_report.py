"""The page without a browser: whole, offline, and within its size."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import BASE_RTT_MS, flow_row, write_campaign, write_cell, write_pair, write_tuned

from tcplab import report
from tcplab.report import model as page_model
from tcplab.report.layout import layout
from tcplab.report.page import number
from tcplab.report.series import pack, series
from tcplab.results.read import read_cell

PAIR_AXES = {"qdisc": ["pfifo"], "first": ["cubic", "bbr"], "second": ["none", "cubic", "bbr"]}


def fairness(root: Path, **options: Any) -> Path:
    campaign = write_campaign(root, "fairness", PAIR_AXES, **options)
    for first, second, share in (("cubic", "cubic", 0.5), ("cubic", "bbr", 0.1)):
        write_pair(campaign, {"qdisc": "pfifo", "first": first, "second": second}, share)
    bad = {"qdisc": "pfifo", "first": "bbr", "second": "bbr"}
    write_pair(campaign, bad, 0.5, status="rejected")
    return campaign


def embedded(page: str, name: str) -> Any:
    """JSON embedded in the page."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def test_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    page = report.write(fairness(tmp_path)).read_text()
    markup = re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", markup)
    assert "@import" not in page
    assert "url(http" not in page


def test_rejected_cells_are_told_with_the_reason(tmp_path: Path) -> None:
    page = report.write(fairness(tmp_path)).read_text()
    assert "udp_rate_mbit: expected 20.0, measured 12.0" in page
    points = embedded(page, "model")["points"]
    (rejected,) = [p for p in points if p["rejected"]]
    assert rejected["ok"] == 0
    assert rejected["m"] == {}


def test_published_stands_beside_ours(tmp_path: Path) -> None:
    page = report.write(fairness(tmp_path)).read_text()
    assert "Inter-fairness of two flows, first table" in page
    found = embedded(page, "matrix-0")
    row, column = found["rows"].index("Cubic"), found["columns"].index("BBR")
    assert found["published"][row][column] == 0.58
    # Jain's index of 0.1 and 0.9.
    assert found["ours"][row][column] == pytest.approx(1 / (2 * (0.01 + 0.81)), abs=1e-3)


def test_page_lists_each_flow_without_a_click(tmp_path: Path) -> None:
    page = report.write(fairness(tmp_path)).read_text()
    section = page[page.index('<section id="flows">') : page.index('<section id="fct"')]
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in section.split("<tr>")[2:]]
    shares = {(*row[1:4],): row[4:7] for row in rows}
    assert shares["cubic", "bbr", "first"] == ["1.91", "0.50", "%"]
    assert shares["cubic", "bbr", "second"] == ["17.22", "1.00", "%"]


def test_goodput_shows_retransmissions_and_colours_respect_the_floor(tmp_path: Path) -> None:
    metrics = embedded(report.write(fairness(tmp_path)).read_text(), "model")["metrics"]
    assert metrics["goodput_mbit.first"]["price"] == "retransmit_ratio.first"
    assert metrics["rtt_ms_p50"]["price"] is None
    # Two pairs fill the same link.
    assert metrics["goodput_mbit"]["scale"]["alike"]
    assert not metrics["goodput_mbit.first"]["scale"]["alike"]


def test_completion_times_have_an_axis_with_marks(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fct", {"cc": ["cubic"]})
    flows = [flow_row(i, "load", "cubic", fct_s=0.0212 + i / 1e5) for i in range(20)]
    write_cell(campaign, {"cc": "cubic"}, flows=pd.DataFrame(flows))
    found = embedded(report.write(campaign).read_text(), "model")
    for axis in (found["fct_axis"], found["points"][0]["fct_axis"]):
        assert axis["ends"][0] < 21.2 and axis["ends"][1] > 21.39
        assert len(axis["ticks"]) >= 4


def test_expectations_are_judged_on_the_page(tmp_path: Path) -> None:
    where = {"first": "cubic", "second": "bbr"}
    expect = [
        {"what": "unfair", "metric": "jain", "where": where, "high": 0.7, "source": "a slide"},
        {"what": "fair", "metric": "jain", "where": where, "low": 0.9},
    ]
    page = report.write(fairness(tmp_path, expect=expect)).read_text()
    verdicts = page[page.index('id="expected"') : page.index('id="map"')]
    assert re.findall(r'badge \w+">([a-z ]+)<', verdicts) == ["met", "missed"]
    assert "a slide" in verdicts


def test_an_interrupted_campaign_has_a_page(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES, status="broken-off")
    page = report.write(campaign).read_text()
    assert "broken-off" in page
    assert "No cell was calibrated" in page


def test_text_of_others_cannot_become_markup(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", {"first": ["x"], "second": ["y"]})
    error = "</script><script>alert(1)</script>"
    write_cell(campaign, {"first": "x", "second": "y"}, status="failed", error=error)
    page = report.write(campaign).read_text()
    assert "<script>alert" not in page
    assert embedded(page, "model")["points"][0]["cells"][0]["error"] == error


def unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def test_series_keep_the_goodput_exactly(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES)
    labels = {"qdisc": "pfifo", "first": "cubic", "second": "bbr"}
    cell = read_cell(write_pair(campaign, labels, 0.75))
    found = series(cell, 40)
    assert found is not None
    assert unpacked(pack(found)) == found
    assert [line["name"] for line in found["lines"]] == ["first: cubic", "second: bbr"]
    inner = found["lines"][0]["mbit"][1:-1]  # the first and the last bin are not whole
    ends = found["t0"] + found["dt"] * np.array([0.5, len(inner) + 0.5])
    mine = cell.samples().query("flow == 0")
    acked = np.diff(np.interp(ends, mine["t_s"], mine["bytes_acked"]))[0]
    assert sum(inner) * found["dt"] == pytest.approx(acked * 8e-6, rel=2e-3)
    assert min(found["lines"][1]["rtt"]) >= BASE_RTT_MS
    assert sum(found["queues"][0]["drops"]) == cell.queues()["drops"].iloc[-1]


def test_many_connections_are_drawn_by_group(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fct", {"cc": ["cubic"]})
    count = 20
    flows = [flow_row(i, "load", "cubic", start_s=i / 10) for i in range(count)]
    times = np.arange(0.1, 20, 0.1)
    samples = [
        pd.DataFrame({"t_s": times, "flow": i, "cwnd_packets": 10, "srtt_us": 40_000})
        for i in range(count)
    ]
    sampled = pd.concat(samples).assign(bytes_acked=lambda f: f["t_s"] * 1e5)
    cell = write_cell(campaign, {"cc": "cubic"}, flows=pd.DataFrame(flows), samples=sampled)
    found = series(read_cell(cell), 50)
    assert found is not None
    (line,) = found["lines"]
    assert line["name"] == "load (all)"
    assert line["mbit"][25] == pytest.approx(count * 0.8, rel=0.01)


def test_series_are_dropped_to_limit_page_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES, repetitions=3)
    labels = {"qdisc": "pfifo", "first": "cubic", "second": "bbr"}
    for repetition, share in enumerate((0.5, 0.6, 0.7)):
        write_pair(campaign, labels, share, repetition)
    whole = embedded(report.write(campaign).read_text(), "series")
    assert len(whole) == 3
    monkeypatch.setattr(page_model, "BUDGET_BYTES", max(map(len, whole.values())) + 10)
    kept = embedded(report.write(campaign).read_text(), "series")
    assert len(kept) == 1, "of three repetitions the median one"
    monkeypatch.setattr(page_model, "BUDGET_BYTES", 10)
    assert embedded(report.write(campaign).read_text(), "series") == {}


def test_tuners_tables_are_in_the_page(tmp_path: Path) -> None:
    axes = {"condition": ["loss5"], "variant": ["cubic", "tcpilot"]}
    campaign = write_campaign(tmp_path, "choice", axes)
    rates = {"cubic": 2.0, "bbr": 10.0}
    write_tuned(campaign, {"condition": "loss5", "variant": "cubic"}, rates, ["cubic"] * 6)
    write_tuned(campaign, {"condition": "loss5", "variant": "tcpilot"}, rates, ["bbr"] * 6)
    points = embedded(report.write(campaign).read_text(), "model")["points"]
    tuned = points[1]
    assert tuned["tuner"]["name"] == "tcpilot"
    assert [row["arm"] for row in tuned["tuner"]["table"]] == ["cubic", "bbr"]
    assert tuned["m"]["goodput_to_cubic"][0] == 5


@pytest.mark.parametrize(
    ("campaign", "axes", "rows", "columns", "facets"),
    [
        ("pairs", {"q": "pc", "first": "abc", "second": "nabc"}, "first", "second", ["q"]),
        ("choice", {"condition": "123456", "variant": "abcdefg"}, "condition", "variant", []),
        ("short", {"variant": "ab"}, "variant", None, []),
        ("fct", {"cc": "ab", "incast": "12345", "scale": "1234"}, "incast", "scale", ["cc"]),
        ("two", {"case": "xy", "cc": "abc", "transport": "mq"}, "cc", "transport", ["case"]),
        ("wide", {"few": "xy", "many": "abcdefghijklmnopqrstuvw"}, "many", "few", []),
    ],
)  # fmt: skip
def test_axes_find_their_place(
    campaign: str, axes: dict[str, str], rows: str, columns: str | None, facets: list[str]
) -> None:
    found = layout(campaign, {a: list(v) for a, v in axes.items()}, ["goodput_mbit"])
    assert (found.rows, found.columns, found.facets) == (rows, columns, facets)


def test_numbers_are_for_people() -> None:
    assert number(None) == "–"
    assert number(0.0123456) == "0.012"
    assert number(0.00001) == "1.0e-05"
    assert number(-12345.678) == "−12\u202f346"
    assert number(123.456, 2) == "123.5"


def test_trace_links_have_plots_over_time(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", {"first": ["cubic"], "second": ["bbr"]})
    folder = write_pair(campaign, {"first": "cubic", "second": "bbr"}, 0.5)
    before = embedded(report.write(campaign).read_text(), "model")
    assert before["over_time"] is False and before["virtual_time"] is True
    file = folder / "cell.json"
    cell = json.loads(file.read_text())
    cell["scenario"] = {"links": [{"trace": "lte-walk"}]}
    file.write_text(json.dumps(cell))
    queues = pd.read_parquet(folder / "queues.parquet")
    queues["offered_bytes"] = 2 * queues["sent_bytes"]
    queues.to_parquet(folder / "queues.parquet")
    assert embedded(report.write(campaign).read_text(), "model")["over_time"] is True
    plotted = series(read_cell(folder), 10)
    assert plotted is not None
    (queue,) = plotted["queues"]
    assert queue["offered"] == pytest.approx([2 * v for v in queue["sent"]], rel=0.01)
