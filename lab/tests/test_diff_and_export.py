"""`tcplab diff` against a stored copy, and files readable by Flent itself."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flent import resultset
from synthetic import RATE_MBIT, write_campaign, write_cell, write_pair

from tcplab.cli.main import main
from tcplab.diff.cli import add_diff
from tcplab.export.cli import add_export
from tcplab.metrics.rates import PAYLOAD_SHARE
from tcplab.run import campaign as campaigns
from tcplab.run.campaign import Outcome

COPIES = Path(__file__).parent / "copies"
AXES = {"first": ["cubic", "bbr"], "second": ["cubic", "bbr"]}


def tcplab(*arguments: object) -> int:
    """One of our subcommands in this process."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    add_diff(commands)
    add_export(commands)
    options = parser.parse_args([str(a) for a in arguments])
    return int(options.run(options))


def campaign(root: Path, stamp: str, shares: dict[tuple[str, str], float], count: int = 1) -> Path:
    folder = write_campaign(root, "fairness", AXES, stamp=stamp, repetitions=count)
    for (first, second), share in shares.items():
        for repetition in range(count):
            write_pair(
                folder,
                {"first": first, "second": second},
                share + repetition * 1e-4,
                repetition,
            )
    return folder


def two(root: Path) -> tuple[Path, Path]:
    """The same pair alike and unlike, and a point in only one."""
    shares = {("cubic", "cubic"): 0.5, ("cubic", "bbr"): 0.3}
    a = campaign(root, "20260101T000000Z", {**shares, ("bbr", "bbr"): 0.5}, count=6)
    b = campaign(root, "20260102T000000Z", {**shares, ("cubic", "bbr"): 0.4}, count=6)
    return a, b


def compared_with_copy(name: str, text: str) -> None:
    """TCPLAB_RENEW=1 renews the copies; read their diff before you commit it."""
    copy = COPIES / name
    if os.environ.get("TCPLAB_RENEW"):
        copy.write_text(text)
    assert text == copy.read_text()


def test_differences_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tcplab("diff", *two(tmp_path)) == 1
    compared_with_copy("diff.txt", capsys.readouterr().out)


def test_everything_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tcplab("diff", *two(tmp_path), "--all", "--metric", "jain") == 1
    compared_with_copy("diff-all.txt", capsys.readouterr().out)


def test_the_same_twice_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, _ = two(tmp_path)
    assert tcplab("diff", a, a) == 0
    assert "\n0 of " in capsys.readouterr().out


def test_tolerance_decides(tmp_path: Path) -> None:
    a = campaign(tmp_path, "20260101T000000Z", {("cubic", "bbr"): 0.50})
    b = campaign(tmp_path, "20260102T000000Z", {("cubic", "bbr"): 0.52})
    assert tcplab("diff", a, b, "--metric", "goodput_mbit", "--tolerance", 0.05) == 0
    assert tcplab("diff", a, b, "--metric", "goodput_mbit", "--tolerance", 0.03) == 1


def test_json_holds_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tcplab("diff", *two(tmp_path), "--json", "--metric", "goodput_mbit") == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["same"]
    assert found["only_a"] == [{"first": "bbr", "second": "bbr"}]
    assert found["only_b"] == []
    assert len(found["rows"]) == 6, "two points, all flows and each of two groups"
    (first,) = [
        r
        for r in found["rows"]
        if r["metric"] == "goodput_mbit.first" and r["labels"]["second"] == "bbr"
    ]
    assert first["relative"] == pytest.approx(1 / 3, abs=0.01)
    assert first["beyond"]
    assert first["apart"], "six repetitions each, far from one another"


def test_incomparable_campaigns_exit_with_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = campaign(tmp_path, "20260101T000000Z", {("cubic", "bbr"): 0.5})
    b = campaign(tmp_path, "20260102T000000Z", {("bbr", "bbr"): 0.5})
    assert tcplab("diff", a, b) == 2
    assert tcplab("diff", a, tmp_path / "nowhere") == 2
    told = capsys.readouterr().err
    assert "no point in common" in told
    assert "nowhere: no result directory" in told
    with pytest.raises(SystemExit, match="2"):
        tcplab("diff", a, b, "--tolerance", "5 %")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    source = campaign(tmp_path, "20260101T000000Z", {("cubic", "bbr"): 0.25})
    write_cell(source, {"first": "bbr", "second": "bbr"}, status="failed", error="no boot")
    assert tcplab("export", source, "--out", tmp_path / "flent") == 0
    (file,) = (tmp_path / "flent").iterdir()
    return file


def test_flent_loads_what_was_exported(exported: Path) -> None:
    found: Any = resultset.load(str(exported))
    assert found.meta("NAME") == "tcp_nup"
    assert found.meta("KERNEL_RELEASE") == "6.1.0-test-amd64"
    usable = RATE_MBIT * PAYLOAD_SHARE
    first = [v for v in found.series("TCP upload::1") if v is not None]
    assert sum(first) / len(first) == pytest.approx(0.25 * usable, rel=0.02)
    total = [v for v in found.series("TCP upload sum") if v is not None]
    assert sum(total) / len(total) == pytest.approx(usable, rel=0.02)
    raw = list(found.raw_series("TCP upload::2", raw_key="tcp_rtt"))
    assert 0 <= raw[0][0] < 1, "times count from T0"
    assert all(40 <= rtt < 100 for _, rtt in raw)


def test_flents_own_command_summarises_it(exported: Path) -> None:
    command = [sys.executable, "-m", "flent", "-i", str(exported), "-f", "summary"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "TCP upload sum" in done.stdout
    assert "first=cubic second=bbr repetition 0" in done.stdout


def test_csv_has_the_tables_of_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_campaign(tmp_path, "pairs", {"first": ["cubic"], "second": ["bbr"]})
    cell = write_pair(folder, {"first": "cubic", "second": "bbr"}, 0.5)
    assert tcplab("export", "--csv", folder) == 0
    tables = sorted(path.stem for path in cell.glob("*.parquet"))
    assert sorted(path.stem for path in cell.glob("*.csv")) == tables
    assert f"{len(tables)} files" in capsys.readouterr().out
    for name in tables:
        stored = pd.read_parquet(cell / f"{name}.parquet")
        written = pd.read_csv(cell / f"{name}.csv")
        assert list(written) == list(stored) and len(written) == len(stored)
    assert tcplab("export", "--csv", folder, "--out", tmp_path / "out") == 0
    assert {p.parent.name for p in (tmp_path / "out").rglob("*.csv")} == {cell.name}


def test_a_run_may_write_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_campaign(tmp_path, "bbr", {"first": ["cubic"], "second": ["bbr"]})
    cell = write_pair(folder, {"first": "cubic", "second": "bbr"}, 0.5)
    outcome = Outcome(folder, 1, 0, 0, {})
    monkeypatch.setattr(campaigns, "start", lambda *_: folder)
    monkeypatch.setattr(campaigns, "run", lambda *_: outcome)
    assert main(["run", "bbr", "--quick"]) == 0
    assert not list(cell.glob("*.csv"))
    assert main(["run", "bbr", "--quick", "--csv"]) == 0
    assert (cell / "flows.csv").exists()
