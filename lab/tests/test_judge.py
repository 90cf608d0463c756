"""Verdicts on campaigns with known answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import SECONDS, flow_row, write_campaign, write_cell

from tcplab.metrics.phases import of_phases
from tcplab.results.read import read_campaign
from tcplab.studies.learner import coverage, records, tables
from tcplab.studies.learner import judge as judging
from tcplab.studies.learner.__main__ import main
from tcplab.studies.learner.judge import Verdict, interval, markdown

_NAMES = {"cubic": "cubic", "bbr": "bbr", "tool": "tcpilot-thompson"}


def connections(mbit: float, again: float, count: int = 75, **more: Any) -> pd.DataFrame:
    """One after the other, each a megabyte at this rate, the first 25 to learn from."""
    took_s = 8 / mbit
    return pd.DataFrame(
        [
            flow_row(
                i,
                "bulk",
                "cubic",
                start_s=i * took_s,
                end_s=(i + 1) * took_s,
                fct_s=took_s,
                bytes=1_000_000,
                sent_packets=1000,
                retransmitted_packets=int(1000 * again),
                warmup=i < 25,
                **more,
            )
            for i in range(count)
        ]
    )


def campaign(tmp_path: Path, name: str, rates: dict[str, tuple[float, float]]) -> Path:
    """Three repetitions differing by a hundredth."""
    axes = {"condition": ["lossy"], "variant": list(rates)}
    folder = write_campaign(tmp_path, name, axes, repetitions=3)
    for variant, (mbit, again) in rates.items():
        for repetition in range(3):
            tuner = {"name": "tcpilot", "table": []} if variant == "tool" else None
            flows = connections(mbit * (1 + 0.01 * repetition), again)
            labels = {"condition": "lossy", "variant": variant}
            write_cell(folder, labels, repetition, flows=flows, tuner=tuner)
    return folder


def judge(folder: Path) -> list[Verdict]:
    campaign = read_campaign(folder)
    return judging.judge(campaign.name, judging.runs_of(campaign))


def test_reference_is_best_by_utility_not_goodput(tmp_path: Path) -> None:
    folder = campaign(
        tmp_path, "choice-utility", {"cubic": (5, 0.0), "bbr": (6, 0.2), "tool": (5.7, 0.2)}
    )
    found = judge(folder)
    assert [v.reference for v in found] == ["cubic", "cubic"]
    # 5.7 × 0.8 of 5, in each repetition alike.
    assert found[0].ratio == pytest.approx(0.912, abs=1e-3) and not found[0].met
    assert found[0].low == pytest.approx(0.912, abs=1e-3)
    assert (found[0].price, found[0].reference_price) == pytest.approx((0.2, 0.0))
    assert not found[1].met and "0 of 2 pass." in markdown(found)


def test_exit_status_shows_whether_the_bound_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = campaign(tmp_path, "choice-utility", {"cubic": (5, 0.0), "tool": (4.9, 0.0)})
    assert main(["judge", str(good)]) == 0
    assert "2 of 2 pass." in capsys.readouterr().out
    bad = campaign(tmp_path, "cold", {"cubic": (5, 0.0), "bbr": (10, 0.0), "tool": (8.9, 0.0)})
    assert main(["judge", str(bad)]) == 1
    assert "| **miss** |" in capsys.readouterr().out
    other = campaign(tmp_path, "fairness", {"cubic": (5, 0.0), "tool": (5, 0.0)})
    assert main(["judge", str(other)]) == 2


def test_default_sets_the_bound_if_gains_are_small(tmp_path: Path) -> None:
    folder = campaign(
        tmp_path, "cold", {"cubic": (10, 0.0), "bbr": (10.4, 0.0), "tool": (9.95, 0.0)}
    )
    (found,) = judge(folder)
    assert found.reference == "bbr" and found.ratio < 0.96 and found.met
    assert found.least == pytest.approx(0.99 / 1.04, rel=1e-3)


def test_interference_compares_share_and_link_with_the_default(
    tmp_path: Path,
) -> None:
    """The tool's connections begin with the default, and end with what takes from others.  It is
    compared with the default even if the other has more when all use it."""
    folder = write_campaign(
        tmp_path, "interference", {"variant": ["all-first", "all-second", "tool"]}
    )
    for variant, (mbit, again, name) in {
        "all-first": (18, 0.03, "cubic"),
        "all-second": (18, 0.0, "bbr"),
        "tool": (18, 0.2, "bbr"),
    }.items():
        flows = connections(mbit, again).assign(cc_used=name, arm="cubic")
        tuner = {"name": "tcpilot", "table": []} if variant == "tool" else None
        cell = write_cell(folder, {"variant": variant}, flows=flows, tuner=tuner)
        raw = json.loads((cell / "cell.json").read_text())
        raw["sysctls"] = {"net.ipv4.tcp_congestion_control": "cubic"}
        (cell / "cell.json").write_text(json.dumps(raw))
    share, link = judge(folder)
    assert (share.reference, share.ratio, share.met) == ("all-first", 0, False)
    assert link.reference == "all-first" and link.ratio == pytest.approx(0.8 / 0.97, rel=1e-3)


def test_gain_is_beside_the_better_of_cubic_and_bbr(tmp_path: Path) -> None:
    """A third static algorithm is judged as the tools are, whatever it reaches."""
    rates = {"cubic": (5, 0.0), "bbr": (6, 0.2), "tp_bbr3": (8, 0.0), "tool": (4.8, 0.1)}
    found = {v.tool: v for v in judge(campaign(tmp_path, "gain", rates))}
    assert {name: v.reference for name, v in found.items()} == {"tp_bbr3": "cubic", "tool": "cubic"}
    assert found["tp_bbr3"].ratio == pytest.approx(1.6, rel=1e-3) and found["tp_bbr3"].met
    assert found["tool"].ratio == pytest.approx(0.864, rel=1e-3) and not found["tool"].met


def test_each_phase_of_shapes_is_judged(tmp_path: Path) -> None:
    """Beside the better of cubic and bbr there, whatever a third algorithm reaches."""
    runs = [
        judging.Run({"variant": name}, 0, name == "tool", figures | {"retransmit_ratio_all": 0.0})
        for name, figures in {
            "cubic": {"utility_mbit": 3.0, "utility_mbit.phase1": 4.0, "utility_mbit.phase2": 2.0},
            "bbr": {"utility_mbit": 3.1, "utility_mbit.phase1": 3.2, "utility_mbit.phase2": 3.0},
            "tool": {"utility_mbit": 3.3, "utility_mbit.phase1": 3.8, "utility_mbit.phase2": 2.6},
        }.items()
    ]
    first, second, whole = judging.judge("shapes", runs)
    assert (first.reference, first.met) == ("cubic", True)
    assert (second.reference, second.met) == ("bbr", False)
    assert (whole.reference, whole.met) == ("bbr", True)


def test_strangers_rate_is_beside_that_with_the_default(tmp_path: Path) -> None:
    """Our gain does not hide their loss, even if another static algorithm leaves them more."""
    folder = write_campaign(tmp_path, "strangers", {"variant": ["cubic", "bbr", "tool"]})
    for variant, (ours, again, others) in {
        "cubic": (2.5, 0.0, 3.0),
        "bbr": (2.0, 0.0, 4.0),
        "tool": (3.5, 0.2, 1.5),
    }.items():
        stranger = flow_row(100, "others", "cubic", bytes=int(others * 1e6 / 8 * SECONDS))
        flows = connections(ours, again).assign(group="ours")
        flows = pd.concat([flows, pd.DataFrame([stranger])], ignore_index=True)
        tuner = {"name": "tcpilot", "table": []} if variant == "tool" else None
        write_cell(folder, {"variant": variant}, flows=flows, tuner=tuner)
    theirs, own = judge(folder)
    assert theirs.reference == own.reference == "cubic"
    assert theirs.ratio == pytest.approx(0.5, rel=1e-2) and not theirs.met
    assert own.ratio == pytest.approx(3.5 * 0.8 / 2.5, rel=1e-2) and own.met


def test_intervals_are_counted_by_the_age_of_a_path(tmp_path: Path) -> None:
    """Of the algorithms that the path has tried, against the static ones' mean of ln utility."""
    axes: dict[str, list[Any]] = {
        "condition": ["lossy"],
        "connections": [5, 50],
        "variant": ["cubic", "bbr", "tcpilot"],
    }
    folder = write_campaign(tmp_path, "coverage", axes)
    lossy = {"condition": "lossy", "connections": 50}
    for variant, mbit in {"cubic": 4.0, "bbr": 6.0}.items():
        write_cell(folder, {**lossy, "variant": variant}, flows=connections(mbit, 0.0))
    own = {"effect": 0.4, "effect_low": 0.3, "effect_high": 0.6, "samples": 3}  # truth: 0.5
    high = own | {"effect_low": 0.55}
    default = {"arm": "cubic", "effect_low": None, "effect_high": None, "samples": 3}
    for age, bbr in {5: own, 50: high}.items():
        table = [
            default,
            {"arm": "bbr", **bbr},
            {"arm": "reno", **own},
            {"arm": "bbr", **own} | {"samples": 0},
        ]
        labels = {"condition": "lossy", "connections": age, "variant": "tcpilot"}
        tuner = {"name": "tcpilot", "table": table}
        write_cell(folder, labels, flows=connections(5.0, 0.0, age), tuner=tuner)
    found = coverage.counts(read_campaign(folder).cells())
    assert {age: (one.held, one.intervals) for age, one in found.items()} == {5: (1, 1), 50: (0, 1)}
    assert main(["coverage", str(folder)]) == 1
    assert "| 5 | 1 | 100.0% |" in coverage.markdown(found)


def test_published_records_get_the_same_verdicts(tmp_path: Path) -> None:
    """By its records, a campaign has the same verdicts; and its table marks missed bounds."""
    rates = {"cubic": (5, 0.0), "bbr": (6, 0.2), "tool": (4.8, 0.1)}
    folder = campaign(tmp_path, "choice-utility", rates)
    found = records.of_campaign(read_campaign(folder))
    published = judging.judge("choice-utility", records.runs(found))
    assert [(v.what, v.reference, v.met) for v in published] == [
        (v.what, v.reference, v.met) for v in judge(folder)
    ]
    for record in found:
        record["labels"] = {"condition": "lossy", "variant": _NAMES[record["labels"]["variant"]]}
        record["place"] = "host"
    page = "before\n<!-- table: choice-utility host -->\nold\n<!-- end -->\nafter\n"
    text = tables.renewed(page, found)
    assert text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| lossy | utility from connection 26 on | 0.97 | cubic, 0.00 % | **0.864" in text
    assert "| thompson |" in text and "| passed |  |  |  | 0 of 2 |" in text
    assert tables.renewed(text, found) == text


def test_an_interval_is_students_and_needs_two_values() -> None:
    low, high = interval([0.9, 1.0, 1.1])
    # 4.303 · 0.1 / √3
    assert (low, high) == pytest.approx((1 - 0.2484, 1 + 0.2484), abs=1e-3)
    assert interval([1.0]) == (None, None)


def test_each_phase_between_changes_has_its_metrics() -> None:
    """1 MB/s and nothing lost for 10 s, then half of it and a tenth sent again."""
    times = [float(t) for t in range(1, 21)]
    samples = pd.DataFrame(
        {
            "t_s": times,
            "flow": 0,
            "link": None,
            "bytes_acked": [1e6 * min(t, 10) + 5e5 * max(t - 10, 0) for t in times],
            "retransmitted_packets": [50 * max(t - 10, 0) for t in times],
            "sent_packets": [1000 * min(t, 10) + 500 * max(t - 10, 0) for t in times],
        }
    )
    flows = pd.DataFrame([flow_row(0, "bulk", "cubic")])
    found = of_phases(samples, flows, (0.0, 10.0, 20.0))
    assert found["phase1"]["utility_mbit"] == pytest.approx(8)
    assert found["phase2"]["goodput_mbit"] == pytest.approx(4)
    assert found["phase2"]["retransmit_ratio"] == pytest.approx(0.1)
    assert found["phase2"]["utility_mbit"] == pytest.approx(3.6)
    assert of_phases(samples, flows, ()) == {}
