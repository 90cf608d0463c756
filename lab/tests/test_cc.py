"""The comparison of congestion controls: which runs are pairs, and how they are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcplab.algorithms import stand_in
from tcplab.results.read import Campaign
from tcplab.scenario import load
from tcplab.scenario.load import find
from tcplab.studies.cc.modules import (
    Difference,
    costs,
    difference,
    outside,
    pairs,
    table,
)


def add(
    folder: Path, cc: str, condition: str, repetition: int, goodput: float, **more: float
) -> None:
    """A cell with its metrics."""
    name = f"{condition}-{cc}.{repetition}"
    place = folder / "cells" / name
    place.mkdir(parents=True)
    labels = {"condition": condition, "cc": cc}
    cell = {"id": name, "labels": labels, "repetition": repetition, "status": "ok"}
    (place / "cell.json").write_text(json.dumps(cell))
    group = {"goodput_mbit": goodput, "cwnd_packets": 50.0, "rtt_ms_mean": 60.0}
    group["retransmit_ratio"] = more.pop("again", 0.01)
    metrics = {"groups": {"one": group}, "values": more}
    (place / "metrics.json").write_text(json.dumps(metrics))


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    for repetition, (theirs, ours) in enumerate([(5, 5.02), (5.1, 5.1), (4.9, 4.9)]):
        add(tmp_path, "highspeed", "clean", repetition, theirs, ack_ns=2000)
        add(tmp_path, "tp_hstcp", "clean", repetition, ours, ack_ns=2500, again=0.03)
        add(tmp_path, "reno", "loss", repetition, theirs)
        add(tmp_path, "tp_reno", "loss", repetition, ours * 1.4)
    add(tmp_path, "bic", "clean", 0, 7)
    return Campaign(tmp_path, {"campaign": "modules", "axes": {"condition": ["clean", "loss"]}})


def test_runs_of_the_kernels_algorithm_and_of_ours_are_pairs(campaign: Campaign) -> None:
    found = pairs(campaign)
    assert [(pair.algorithm, pair.condition) for pair in found] == [
        ("hstcp", "clean"),
        ("reno", "loss"),
    ], "bic has no run of ours"
    assert table(found).splitlines()[2] == (
        "| hstcp | clean | 3, 3 | 5.00 → 5.01 (+0.1 %: -4 to +5) "
        "| 50.00 → 50.00 (+0.0 %: +0 to +0) | 60.00 → 60.00 (+0.0 %: +0 to +0) | 1.00 % → 3.00 % |"
    )
    assert "(+40.2 %: +34 to +46 *)" in table(found)
    assert outside(found) == 1
    assert costs(found).splitlines()[2:] == ["| hstcp | clean | 2000 | 2500 | 1.25 |"]


def test_a_difference_that_chance_explains_is_within_its_bound() -> None:
    wide = difference([4, 5, 6], [4.5, 5.5, 6.5])
    assert (round(wide.percent, 6), wide.exceeds(5)) == (10, False)
    assert str(wide) == "+10.0 %: -35 to +55"
    assert difference([4.6, 5, 5.4], [6.6, 7, 7.4]).exceeds(5)
    assert difference([5.0], [6.0]) == Difference(pytest.approx(20), None, None)
    assert difference([5.0], [6.0]).exceeds(5), "a single run has no interval to excuse it"
    assert difference([0.0], [0.0]).percent == 0


def test_the_campaign_has_both_of_every_pair() -> None:
    scenario = load(find("modules"))
    names = {str(point.labels["cc"]) for point in scenario.points}
    ours = {name.removeprefix("tp_") for name in names if name.startswith("tp_")}
    theirs = names - {f"tp_{name}" for name in ours}
    assert {stand_in(name) for name in theirs} == names - theirs
    assert any(point.cell.measure.acks for point in scenario.points)
