"""Points, harm, regret, verdicts: a campaign's summary of invented cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from synthetic import RATE_MBIT, flow_row, write_campaign, write_cell, write_pair, write_tuned

from tcplab.metrics import summarise, write_summary
from tcplab.metrics import write_cell as write_metrics
from tcplab.metrics.rates import PAYLOAD_SHARE
from tcplab.metrics.summary import Point, points
from tcplab.results.read import ResultsError, read_campaign, read_cell

USABLE = RATE_MBIT * PAYLOAD_SHARE
PAIR_AXES = {"first": ["cubic", "bbr"], "second": ["none", "cubic", "bbr"]}


def pair(first: str, second: str) -> dict[str, str]:
    return {"first": first, "second": second}


def by_labels(found: list[Point], **labels: object) -> Point:
    (point,) = [p for p in found if p.labels == labels]
    return point


def test_points_follow_the_sweep_and_collect_repetitions(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES, repetitions=2)
    for first, second in (("bbr", "none"), ("cubic", "bbr"), ("cubic", "none")):
        for repetition in (1, 0):
            write_pair(campaign, pair(first, second), 0.75, repetition)
    found = points(read_campaign(campaign))
    assert [tuple(p.labels.values()) for p in found] == [
        ("cubic", "none"),
        ("cubic", "bbr"),
        ("bbr", "none"),
    ]
    assert [p.repetitions for p in found] == [[0, 1]] * 3
    assert found[1].median("jain") == pytest.approx(0.8, abs=1e-3)


def test_rejected_and_failed_cells_are_tallied_but_excluded(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES, repetitions=3)
    write_pair(campaign, pair("cubic", "bbr"), 0.5, 0)
    write_pair(campaign, pair("cubic", "bbr"), 0.9, 1, status="rejected")
    write_cell(campaign, pair("cubic", "bbr"), 2, status="failed", error="it did not boot")
    (point,) = points(read_campaign(campaign))
    assert (point.tally("ok"), point.tally("rejected"), point.tally("failed")) == (1, 1, 1)
    assert point.metrics["jain"].values == pytest.approx([1.0], abs=1e-3)


def test_harm_compares_with_solo_run_under_same_condition(tmp_path: Path) -> None:
    axes = {"qdisc": ["pfifo", "codel"], **PAIR_AXES}
    campaign = write_campaign(tmp_path, "fairness", axes)
    write_pair(campaign, {"qdisc": "pfifo", **pair("cubic", "none")}, 1.0)
    write_pair(campaign, {"qdisc": "pfifo", **pair("cubic", "bbr")}, 0.25)
    write_pair(campaign, {"qdisc": "codel", **pair("cubic", "bbr")}, 0.25)
    found = points(read_campaign(campaign))
    beside = by_labels(found, qdisc="pfifo", first="cubic", second="bbr")
    assert beside.median("harm_goodput.first") == pytest.approx(0.75, abs=1e-3)
    assert beside.median("harm_goodput.second") is None, "bbr was not run alone"
    elsewhere = by_labels(found, qdisc="codel", first="cubic", second="bbr")
    assert elsewhere.median("harm_goodput.first") is None, "a solo run under another qdisc"


def test_regret_and_gain_are_within_the_condition(tmp_path: Path) -> None:
    variants = ["cubic", "bbr", "tcpilot"]
    campaign = write_campaign(tmp_path, "choice", {"condition": ["loss5"], "variant": variants})
    rates = {"cubic": 2.0, "bbr": 10.0}
    for variant in ("cubic", "bbr"):
        write_tuned(campaign, {"condition": "loss5", "variant": variant}, rates, [variant] * 6)
    # The first third, two of six, is learning and does not count: (2 + 10 + 10 + 10) / 4.
    chosen = ["cubic", "cubic", "cubic", "bbr", "bbr", "bbr"]
    write_tuned(campaign, {"condition": "loss5", "variant": "tcpilot"}, rates, chosen)
    found = points(read_campaign(campaign))
    tuned = by_labels(found, condition="loss5", variant="tcpilot")
    assert tuned.tuner == "tcpilot"
    assert tuned.median("learned_goodput_mbit") == pytest.approx(8)
    assert tuned.median("regret") == pytest.approx(0.2)
    assert tuned.median("goodput_to_cubic") == pytest.approx(4)
    assert by_labels(found, condition="loss5", variant="bbr").median("regret") is None
    assert tuned.as_json()["arms"] == {"cubic": 3, "bbr": 3}


def test_only_marked_warm_up_connections_are_left_out(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "choice", {"condition": ["loss5"], "variant": ["tcpilot"]})
    labels = {"condition": "loss5", "variant": "tcpilot"}
    folder = write_tuned(campaign, labels, {"cubic": 2.0, "bbr": 10.0}, ["cubic"] * 3 + ["bbr"] * 3)
    flows = pd.read_parquet(folder / "flows.parquet")
    flows["warmup"] = flows["flow"] < 2
    flows.to_parquet(folder / "flows.parquet")
    found = write_metrics(folder)
    assert found["values"]["learned_goodput_mbit"] == pytest.approx((2 + 3 * 10) / 4)
    assert found["arms"] == {"cubic": 3, "bbr": 3}, "of all connections"


def test_connections_side_by_side_have_not_learned(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fct", {"cc": ["cubic"]})
    rows = [flow_row(i, "load", "cubic", start_s=i / 2, bytes=1000) for i in range(9)]
    folder = write_cell(campaign, {"cc": "cubic"}, flows=pd.DataFrame(rows))
    assert write_metrics(folder)["values"]["learned_goodput_mbit"] is None


def test_verdicts_judge_values_and_ratios(tmp_path: Path) -> None:
    expect = [
        {"what": "unfair", "metric": "jain", "where": pair("cubic", "bbr"), "high": 0.81},
        {"what": "fair", "metric": "jain", "where": pair("cubic", "bbr"), "low": 0.9},
        {
            "what": "bbr gets three times as much",
            "metric": "goodput_mbit",
            "where": pair("bbr", "none"),
            "over": {"first": "cubic", "second": "none"},
            "low": 0.99,
            "high": 1.01,
        },
        {"what": "never run", "metric": "jain", "where": {"first": "lola"}, "low": 0.5},
    ]
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES, expect=expect)
    write_pair(campaign, pair("cubic", "bbr"), 0.75)
    write_pair(campaign, pair("cubic", "none"), 1.0)
    write_pair(campaign, pair("bbr", "none"), 1.0)
    judged = summarise(read_campaign(campaign))["verdicts"]
    assert [v["ok"] for v in judged] == [True, False, True, None]
    assert judged[2]["measured"] == pytest.approx(1)


def test_stored_metrics_and_summary_are_what_is_computed(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES)
    folder = write_pair(campaign, pair("cubic", "bbr"), 0.75)
    assert read_cell(folder).metrics() is None
    stored = write_metrics(folder)
    assert read_cell(folder).metrics() == stored
    summary = write_summary(campaign)
    assert read_campaign(campaign).summary() == summary
    assert summary["points"][0]["metrics"]["goodput_mbit"]["median"] == pytest.approx(
        USABLE, rel=1e-3
    )


def test_latest_link_leads_to_the_newest_campaign(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES)
    (tmp_path / "latest").symlink_to(campaign.name)
    assert read_campaign(tmp_path).folder == campaign
    assert read_campaign(tmp_path / "latest").name == "fairness"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.unlink(), "manifest.json is missing"),
        (lambda m: m.write_text("{"), "Expecting property name"),
        (lambda m: m.write_text(json.dumps({"format": 2})), "has format 2, known is 1"),
        (lambda m: m.write_text(json.dumps({"format": 1})), "'campaign' is missing"),
    ],
)
def test_a_damaged_directory_is_told_by_file(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES)
    change(campaign / "manifest.json")
    with pytest.raises(ResultsError, match=words):
        read_campaign(campaign)


def test_a_damaged_cell_is_told_by_file(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", PAIR_AXES)
    folder = write_pair(campaign, pair("cubic", "bbr"), 0.75)
    (folder / "flows.parquet").write_text("not Parquet")
    with pytest.raises(ResultsError, match=r"flows\.parquet"):
        write_metrics(folder)
    (folder / "cell.json").write_text('{"id": "x"}')
    with pytest.raises(ResultsError, match=r"cell\.json: KeyError\('labels'\)"):
        read_cell(folder)
