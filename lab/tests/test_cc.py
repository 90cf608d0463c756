"""The comparison of congestion controls: records, pairs of runs, and their verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import write_campaign, write_cell

from tcplab.algorithms import stand_in
from tcplab.results.read import read_campaign
from tcplab.scenario import load
from tcplab.scenario.load import find
from tcplab.studies.cc import laws, records, tables
from tcplab.studies.cc.modules import Difference, difference, pairs


def record(
    campaign: str, cc: str, condition: str, goodput: float = 5.0, **more: Any
) -> dict[str, Any]:
    values = {"goodput_mbit": goodput, "cwnd_packets": 50.0, "rtt_ms_mean": 60.0}
    values["retransmit_ratio"] = more.pop("again", 0.01)
    if "ack_ns" in more:
        values["ack_ns"] = more.pop("ack_ns")
    labels = {"cc": cc, "condition": condition}
    return {"campaign": campaign, "place": "machine", "labels": labels, "values": values, **more}


@pytest.fixture
def found() -> list[dict[str, Any]]:
    """Parts of a campaign, the later conditions first."""
    whole = []
    for theirs, ours in [(5, 5.02), (5.1, 5.1), (4.9, 4.9)]:
        whole.append(record("modules", "reno", "loss", theirs))
        whole.append(record("modules", "tp_reno", "loss", ours * 1.4))
        whole.append(record("modules", "highspeed", "clean", theirs, ack_ns=2000))
        whole.append(record("modules", "tp_hstcp", "clean", ours, ack_ns=2500, again=0.03))
    return [*whole, record("modules", "bic", "clean", 7)]


def page_of(found: list[dict[str, Any]], *names: str) -> list[str]:
    marks = "".join(f"<!-- table: {name} machine -->\nold\n<!-- end -->\n" for name in names)
    return tables.renewed(marks, found).splitlines()


def test_kernel_and_tcpilot_algorithms_form_pairs(found: list[dict[str, Any]]) -> None:
    assert {(pair.algorithm, pair.condition) for pair in pairs(found)} == {
        ("hstcp", "clean"),
        ("reno", "loss"),
    }, "bic has no run of ours"
    assert page_of(found, "modules-cells")[4] == (
        "| hstcp | clean | 3, 3 | 5.00 → 5.01 (+0.1 %: -4 to +5) "
        "| 50.00 → 50.00 (+0.0 %: +0 to +0) | 60.00 → 60.00 (+0.0 %: +0 to +0) | 1.00 % → 3.00 % |"
    )
    assert "(+40.2 %: +34 to +46 *)" in page_of(found, "modules-cells")[5]
    assert page_of(found, "modules-overview")[2:8] == [
        "| algorithm | clean | loss |",
        "| --- | --- | --- |",
        "| hstcp | +0.1 +0.0 +0.0 | – |",
        "| reno | – | +40.2* +0.0 +0.0 |",
        "",
        "1 of 6 figures are outside their bounds.",
    ]
    assert page_of(found, "modules-costs")[4:-2] == ["| hstcp | clean | 2000 | 2500 | 1.25 |"]


def test_rows_follow_the_scenario_whatever_was_published_first() -> None:
    law = {"cuts": 8, "kept": 0.5, "kept_law": None, "grown": None, "queued": 39.0}
    found = [
        record("laws", cc, condition, law=law)
        for condition in ("100 Mbit/s", "20 Mbit/s")
        for cc in ("tp_reno", "reno")
    ]
    found.append(record("laws", "reno", "20 Mbit/s", law={**law, "cuts": 6, "grown": 0.9}))
    found.append(record("laws", "reno", "20 Mbit/s", law={**law, "cuts": 9, "grown": 1.0}))
    lines = page_of(found, "laws", "laws-pairs")
    assert lines[4:8] == [
        "| reno | 20 Mbit/s | 3 | 8 | 0.95 (0.90 to 1.00) | 0.50 | – | 39.0 |",
        "| reno | 100 Mbit/s | 1 | 8 | – | 0.50 | – | 39.0 |",
        "| tp_reno | 20 Mbit/s | 1 | 8 | – | 0.50 | – | 39.0 |",
        "| tp_reno | 100 Mbit/s | 1 | 8 | – | 0.50 | – | 39.0 |",
    ]
    assert lines[-4].startswith("| reno | 20 Mbit/s | 3, 1 | 5.00 → 5.00 (+0.0 %) |")


def test_a_table_without_records_says_so(found: list[dict[str, Any]]) -> None:
    assert "Not run yet." in page_of(found, "laws")
    assert "Not run yet." in page_of([], "modules-overview")


def test_records_have_the_flows_figures_and_the_laws(tmp_path: Path) -> None:
    def of(name: str, **values: Any) -> dict[str, Any]:
        folder = write_campaign(tmp_path, name, {"condition": ["clean"], "cc": ["tp_reno"]})
        labels = {"condition": "clean", "cc": "tp_reno"}
        cell = write_cell(folder, labels, samples=sawtooth(0.5, 1).replace(UNSET, None))
        group = {"goodput_mbit": 18.8888888, "cwnd_packets": 50.0, "rtt_ms_mean": None}
        metrics = {"groups": {"one": group}, "values": values}
        (cell / "metrics.json").write_text(json.dumps(metrics))
        (only,) = records.of_campaign(read_campaign(folder))
        return only

    modules = of("modules", ack_ns=2222.2222)
    assert modules["values"] == {"goodput_mbit": 18.8889, "cwnd_packets": 50.0, "ack_ns": 2222.22}
    assert modules["command"] == "tcplab run modules --quick --kernel 6.1" and "law" not in modules
    law = of("laws")["law"]
    assert (law["cuts"], law["kept_law"]) == (18, 0.5), "without the end of slow start"
    assert law["grown"] == pytest.approx(1, abs=0.02)


def test_difference_explained_by_chance_stays_within_bound() -> None:
    wide = difference([4, 5, 6], [4.5, 5.5, 6.5])
    assert (round(wide.percent, 6), wide.exceeds(5)) == (10, False)
    assert str(wide) == "+10.0 %: -35 to +55"
    assert difference([4.6, 5, 5.4], [6.6, 7, 7.4]).exceeds(5)
    assert difference([5.0], [6.0]) == Difference(20, None, None)
    assert difference([5.0], [6.0]).exceeds(5), "a single run has no interval to excuse it"
    assert difference([0.0], [0.0]).percent == 0


def test_the_campaign_has_both_of_every_pair() -> None:
    scenario = load(find("modules"))
    names = {str(point.labels["cc"]) for point in scenario.points}
    ours = {name.removeprefix("tp_") for name in names if name.startswith("tp_")}
    theirs = names - {f"tp_{name}" for name in ours}
    assert {stand_in(name) for name in theirs} == names - theirs
    assert any(point.cell.measure.acks for point in scenario.points)


UNSET = 2**31 - 1.0
"""A threshold before the first loss."""


def sawtooth(kept: float, step: float) -> pd.DataFrame:
    """60 s of a window: it loses at 100 packets, keeps a part, and grows by `step` a round."""
    window, threshold, t_s, rows = 50.0, UNSET, 0.0, []
    while t_s < 60:
        if window >= 100:
            threshold = window = window * kept
        rows.append((t_s, window, threshold, 60_000.0, 40_000.0))
        window += step * 0.02 / 0.06
        t_s += 0.02
    names = ["t_s", "cwnd_packets", "ssthresh_packets", "srtt_us", "min_rtt_us"]
    return pd.DataFrame(rows, columns=names)


def test_growth_and_losses_are_compared_with_the_law() -> None:
    reno = laws.of_samples("reno", sawtooth(0.5, 1))
    assert (reno.grown, reno.kept) == (pytest.approx(1, abs=0.02), pytest.approx(0.5, abs=0.01))
    assert (reno.cuts, reno.kept_law) == (19, 0.5)
    slow = laws.of_samples("reno", sawtooth(0.7, 0.5))
    assert (slow.grown, slow.kept) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.7, abs=0.01))
    hybla = laws.of_samples("hybla", sawtooth(0.5, 1))
    assert hybla.grown == pytest.approx(1 / 2.56, abs=0.02)
    without = laws.of_samples("bbr", sawtooth(0.5, 1))
    assert (without.grown, without.kept_law) == (None, None)


def test_repeated_cuts_to_equal_ssthresh_are_counted() -> None:
    samples = sawtooth(0.5, 1)
    samples["ssthresh_packets"] = samples["ssthresh_packets"].clip(upper=50)
    # The window comes down over a round, as RFC 6937 has it.
    samples["cwnd_packets"] = samples["cwnd_packets"].rolling(4, min_periods=1).mean()
    samples.loc[samples.index[:100], "ssthresh_packets"] = UNSET
    same = laws.of_samples("reno", samples)
    assert same.cuts == 19 and same.grown == pytest.approx(1, abs=0.03)


def test_cubics_law_is_its_rfcs() -> None:
    def at(since_s: float, rtt_s: float = 0.04) -> float:
        growth, _ = laws.LAWS["cubic"]
        assert growth is not None
        return growth(laws.State(400, rtt_s, 0.04, since_s, 500, 350, 0.06))

    # K is the cube root of 375 s; the derivative of 0.4 (t - K)^3 over a round of 40 ms.
    assert at(0.1) == pytest.approx(3 * 0.4 * 7.1113**2 * 0.04, rel=0.01)
    assert at(7.2113) == pytest.approx(0.0, abs=1e-3)
    # At 1 ms the Reno-friendly window is ahead.
    assert at(0.1, 0.001) == pytest.approx(9 / 17)
