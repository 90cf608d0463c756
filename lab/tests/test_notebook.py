"""`tcplab.load`, and the example of the manual, run as it is printed there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from synthetic import write_campaign, write_pair

import tcplab
from tcplab.results.read import ResultsError

PAIRS = Path(__file__).parent / "data" / "pairs"
MANUAL = Path(__file__).parents[2] / "docs" / "use" / "laboratory.md"


def test_tables_of_a_real_campaign_are_consistent() -> None:
    cells, flows, samples = tcplab.load(PAIRS)
    assert len(cells) == 10 and set(cells["status"]) == {"ok"}
    assert set(flows["cell"]) == set(cells["cell"]) == set(samples["cell"])
    both = cells[(cells["first"] == "cubic") & (cells["second"] == "bbr")]
    assert len(both) == 2
    parts = both["goodput_mbit.first"] + both["goodput_mbit.second"]
    assert parts.tolist() == pytest.approx(both["goodput_mbit"].tolist(), rel=0.01)
    mine = flows[flows["cell"] == both["cell"].iloc[0]]
    assert set(mine["cc_used"]) == {"cubic", "bbr"}
    assert samples.groupby("cell")["t_s"].max().min() > 5


def test_rejected_cells_appear_only_in_the_cell_table(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path, "fairness", {"first": ["cubic"], "second": ["bbr", "none"]})
    good = write_pair(folder, {"first": "cubic", "second": "bbr"}, 0.5)
    write_pair(folder, {"first": "cubic", "second": "none"}, 0.5, status="rejected")
    found = tcplab.load(folder)
    assert found.cells["status"].tolist() == ["ok", "rejected"]
    assert found.cells["goodput_mbit"].isna().tolist() == [False, True]
    assert set(found.flows["cell"]) == set(found.samples["cell"]) == {good.name}


def test_label_named_like_a_column_keeps_both(tmp_path: Path) -> None:
    labels = {"first": "cubic", "second": "bbr", "cc": "all"}
    folder = write_campaign(tmp_path, "mine", {k: [v] for k, v in labels.items()})
    write_pair(folder, labels, 0.5)
    found = tcplab.load(folder)
    assert set(found.samples["cc"]) == {"cubic", "bbr"}
    assert set(found.samples["cc_label"]) == {"all"}
    assert set(found.cells["cc"]) == {"all"}


def test_folder_without_campaign_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=re.escape(str(tmp_path))):
        tcplab.load(tmp_path)


def test_manual_example_prints_its_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = MANUAL.read_text().partition("## In a notebook")[2]
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", section, re.DOTALL)[:2]
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "latest").symlink_to(PAIRS)
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(MANUAL), "exec"), {})
    assert said.getvalue() == printed
