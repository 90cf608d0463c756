"""`tcplab table`: the figures as text, and its message without any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import write_campaign, write_pair

from tcplab.cli.main import main

AXES = {"qdisc": ["pfifo", "codel"], "first": ["cubic", "bbr"], "second": ["cubic", "bbr"]}


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    folder = write_campaign(tmp_path, "fairness", AXES, repetitions=2)
    for qdisc in AXES["qdisc"]:
        for first, second, share in (("cubic", "cubic", 0.5), ("bbr", "cubic", 0.1)):
            for repetition in range(2):
                labels = {"qdisc": qdisc, "first": first, "second": second}
                write_pair(folder, labels, share, repetition)
    write_pair(folder, {"qdisc": "pfifo", "first": "bbr", "second": "bbr"}, 0.5, status="rejected")
    return folder


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["table", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_output_has_rejection_count_and_table_per_condition(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = lines(capsys, str(campaign))
    assert any(line.startswith("8 cells, 1 rejected, 0 failed; commit 0123456789") for line in said)
    start = said.index("## Jain's index: qdisc pfifo")
    assert cells(said[start + 2]) == ["first ↓ second →", "cubic", "bbr"]
    assert cells(said[start + 4])[1] == "1.000 (1.000 to 1.000)"
    assert "## Jain's index: qdisc codel" in said


def test_published_matrix_shows_ours_first_and_pairs_once(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = lines(capsys, str(campaign))
    row, _ = [line for line in said if line.startswith("| BBR ")]  # drop tail, and an AQM
    # Jain's index of 0.1 and 0.9; the slides have 0.58 for this pair.
    assert cells(row)[1] == "0.61 (0.58)"
    assert any("2 of 105 figures compared" in line for line in said)


def test_another_metric_can_be_asked_for(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = lines(capsys, str(campaign), "--metric", "goodput_mbit")
    start = said.index("## Goodput, Mbit/s; retransmitted: qdisc pfifo")
    # bbr gets a tenth; of 20,000 segments of both 150 were sent again.
    assert cells(said[start + 5])[1] == "19.13 (19.13 to 19.13); 0.75 %"
    assert "## Each flow" not in said, "what was asked for, and no more"
    assert main(["table", str(campaign), "--metric", "speed"]) == 2
    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert "no cell has the metric 'speed'" in problem


def test_each_flow_row_shows_goodput_and_retransmissions(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = lines(capsys, str(campaign))
    start = said.index("## Each flow")
    head = ["qdisc", "first", "second", "flow", "Goodput, Mbit/s", "Retransmitted", "RTT p50, ms"]
    assert cells(said[start + 2]) == head
    rows = [cells(line) for line in said[start + 4 :] if line.startswith("|")]
    got = {tuple(row[:4]): row[4:6] for row in rows if len(row) == 7}
    assert got["pfifo", "bbr", "cubic", "first"] == ["1.91 (1.91 to 1.91)", "0.50 %"]
    assert got["pfifo", "bbr", "cubic", "second"] == ["17.22 (17.22 to 17.22)", "1.00 %"]


def test_single_flow_campaign_has_no_flow_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(tmp_path, "fairness", AXES)
    write_pair(folder, {"qdisc": "pfifo", "first": "bbr", "second": "none"}, 1.0)
    assert "## Each flow" not in lines(capsys, str(folder))


def test_json_has_every_published_figure(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, Any] = json.loads("\n".join(lines(capsys, str(campaign), "--json")))
    assert found["cells"] == {"ok": 8, "rejected": 1, "failed": 0}
    (table,) = [t for t in found["published"] if t["condition"] == {"qdisc": "pfifo"}]
    assert len(table["figures"]) == 196
    (both,) = [f for f in table["figures"] if f["where"] == {"first": "BBR", "second": "Cubic"}]
    assert both["published"] == 0.58
    assert both["ours"] == pytest.approx(1 / (2 * (0.01 + 0.81)), abs=1e-3)


def test_no_campaign_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_row_of_value_zero_is_named_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(tmp_path, "losses", {"loss": [0, 1]})
    for loss in (0, 1):
        write_pair(folder, {"loss": loss, "first": "cubic", "second": "cubic"}, 0.5)
    said = lines(capsys, str(folder))
    named = [cells(line)[0] for line in said if line.startswith("| ")]
    assert "0" in named and "1" in named and "all" not in named, said
