"""`tcplab publish`: records of campaigns, pages of records, and the commands on pages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import flow_row, write_campaign, write_cell

from tcplab.cli.main import main
from tcplab.results.read import read_campaign
from tcplab.scenario import names
from tcplab.studies import lines, publish
from tcplab.studies import page as pages
from tcplab.studies.publish import STUDIES, Study


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of docs/measured, for tests to publish into."""
    copy = tmp_path / "measured"
    shutil.copytree(publish.MEASURED, copy, ignore=shutil.ignore_patterns("*.parquet", "*.png"))
    monkeypatch.setattr(publish, "MEASURED", copy)
    return copy


def campaign(tmp_path: Path, name: str = "choice-utility", **manifest: Any) -> Path:
    """A whole campaign of one cell."""
    folder = write_campaign(tmp_path, name, {"condition": ["loss2"], "variant": ["cubic"]})
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "quick": False, **manifest}))
    connections = [
        flow_row(i, "bulk", "cubic", bytes=1_000_000, fct_s=1.0, warmup=False) for i in range(2)
    ]
    labels = {"condition": "loss2", "variant": "cubic"}
    write_cell(folder, labels, flows=table_of(connections))
    return folder


def table_of(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_pages_are_what_their_records_give(study: Study) -> None:
    for page, text in publish.renewed(study).items():
        assert text == page.read_text(), "run: tcplab publish"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_study_takes_campaigns_that_exist(study: Study) -> None:
    assert set(study.campaigns) <= set(names())
    assert {record["campaign"] for record in study.records()} <= set(study.campaigns)
    for text in (page.read_text() for page in study.pages):
        assert text.count("<!-- table: ") == text.count("<!-- end -->")
        assert bool(pages.tables(text)) == bool(study.campaigns)


def test_a_study_of_two_pages_renews_both(measured: Path, tmp_path: Path) -> None:
    folder = write_campaign(tmp_path, "laws", {"condition": ["20 Mbit/s"], "cc": ["reno"]})
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "quick": False}))
    written, refused = publish.publish([folder])
    assert refused == []
    assert written == [
        measured / "data" / "congestion-controls.jsonl.xz",
        measured / "congestion-controls.md",
        measured / "congestion-controls-cells.md",
    ]


def test_a_published_campaign_renews_its_page(measured: Path, tmp_path: Path) -> None:
    data = measured / "data" / "learner.jsonl.xz"
    before = lines.read(data)
    written, refused = publish.publish([campaign(tmp_path)])
    assert written == [data, measured / "learner.md"]
    assert refused == []
    after = lines.read(data)
    assert after.startswith(before.splitlines()[0]) and '"commit":"0123456789"' in after
    again, _ = publish.publish([campaign(tmp_path / "again")])
    assert lines.read(data) == after, "a record is replaced"
    assert again == written


@pytest.mark.parametrize(
    ("name", "manifest", "why"),
    [
        ("choice-utility", {"dirty": True}, "files differed from its commit"),
        ("choice-utility", {"commit": None}, "its commit is not known"),
        ("choice-utility", {"quick": True}, "it is a quick form"),
        ("bulk", {"only": ["variant=none"]}, "it has not every variant"),
        ("fairness", {}, "no page has fairness"),
    ],
)
def test_irreproducible_campaigns_are_refused(
    measured: Path, tmp_path: Path, name: str, manifest: dict[str, Any], why: str
) -> None:
    good, bad = campaign(tmp_path / "good"), campaign(tmp_path / "bad", name, **manifest)
    written, refused = publish.publish([bad, good])
    assert len(refused) == 1 and why in refused[0]
    assert len(written) == 2, "the good one is published"


def test_a_quick_form_may_be_published_or_not() -> None:
    assert [study.name for study in STUDIES if study.takes_quick] == ["effect", "l4s"]


def test_show_prints_tables_and_writes_nothing(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(tmp_path, "short", {"variant": ["none", "limit"]})
    for variant in ("none", "limit"):
        flows = [flow_row(i, "short", "cubic", start_s=i, end_s=i + 1) for i in range(10)]
        flow = {"connections": 10, "destinations": None, "streams": 1}
        scenario = {"links": [{"loss_percent": 0}], "flows": [flow]}
        write_cell(folder, {"variant": variant}, flows=table_of(flows), scenario=scenario)
    assert read_campaign(folder).manifest["quick"]
    before = sorted((p, p.stat().st_mtime_ns) for p in measured.rglob("*"))
    assert main(["publish", "--show", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("short machine\n") and "| no tool | 1 | 1.000 | 1 |" in said
    assert sorted((p, p.stat().st_mtime_ns) for p in measured.rglob("*")) == before
    assert main(["publish", "--show"]) == 2


def test_publish_says_what_it_refused(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", str(campaign(tmp_path, quick=True))]) == 1
    assert "is not published: it is a quick form" in capsys.readouterr().err
