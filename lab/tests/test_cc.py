"""The comparison of congestion controls: pairs of runs, and their verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tcplab.algorithms import stand_in
from tcplab.results.read import Campaign
from tcplab.scenario import load
from tcplab.scenario.load import find
from tcplab.studies.cc import laws
from tcplab.studies.cc.modules import (
    Difference,
    costs,
    difference,
    outside,
    overview,
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


def test_kernel_and_tcpilot_algorithms_form_pairs(campaign: Campaign) -> None:
    found = pairs([campaign])
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
    assert overview(found).splitlines()[2:] == [
        "| hstcp | +0.1 +0.0 +0.0 | – |",
        "| reno | – | +40.2* +0.0 +0.0 |",
    ]
    assert costs(found).splitlines()[2:] == ["| hstcp | clean | 2000 | 2500 | 1.25 |"]


def test_difference_explained_by_chance_stays_within_bound() -> None:
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


def sawtooth(kept: float, step: float) -> pd.DataFrame:
    """60 s of a window: it loses at 100 packets, keeps a part, and grows by `step` a round."""
    window, threshold, t_s, rows = 50.0, 2**31 - 1.0, 0.0, []
    while t_s < 60:
        if window >= 100:
            threshold = window = window * kept
        rows.append((t_s, window, threshold, 60_000.0, 40_000.0))
        window += step * 0.02 / 0.06
        t_s += 0.02
    names = ["t_s", "cwnd_packets", "ssthresh_packets", "srtt_us", "min_rtt_us"]
    return pd.DataFrame(rows, columns=names)


def test_growth_and_losses_are_compared_with_the_law() -> None:
    reno = laws.of_samples("reno", "20 Mbit/s", sawtooth(0.5, 1))
    assert (reno.grown, reno.kept) == (pytest.approx(1, abs=0.02), pytest.approx(0.5, abs=0.01))
    assert (reno.cuts, reno.kept_law) == (19, 0.5)
    slow = laws.of_samples("reno", "20 Mbit/s", sawtooth(0.7, 0.5))
    assert (slow.grown, slow.kept) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.7, abs=0.01))
    hybla = laws.of_samples("hybla", "20 Mbit/s", sawtooth(0.5, 1))
    assert hybla.grown == pytest.approx(1 / 2.56, abs=0.02)
    assert laws.table([reno]).splitlines()[2].startswith("| reno | 20 Mbit/s | 1 | 19 | 1.0")
    without = laws.of_samples("bbr", "20 Mbit/s", sawtooth(0.5, 1))
    assert (without.grown, without.kept_law) == (None, None)


def test_repeated_cuts_to_equal_ssthresh_are_counted() -> None:
    samples = sawtooth(0.5, 1)
    samples["ssthresh_packets"] = samples["ssthresh_packets"].clip(upper=50)
    # The window comes down over a round, as RFC 6937 has it.
    samples["cwnd_packets"] = samples["cwnd_packets"].rolling(4, min_periods=1).mean()
    samples.loc[samples.index[:100], "ssthresh_packets"] = 2**31 - 1
    same = laws.of_samples("reno", "20 Mbit/s", samples)
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
