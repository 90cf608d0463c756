"""The process holding tcpilot's congestion controls during a campaign on this host.

A shell script stands for `tcpilot cc load`: it shows its arguments and its lifetime.
"""

from __future__ import annotations

import fcntl
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from tcplab.engine import held
from tcplab.engine.errors import EngineError
from tcplab.scenario import find, load
from tcplab.scenario.model import Cell


@pytest.fixture(autouse=True)
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with one of our algorithms, registered by somebody else."""
    path = tmp_path / "available"
    path.write_text("reno cubic tp_vegas\n")
    monkeypatch.setattr(held, "AVAILABLE", path)
    monkeypatch.setattr(held, "LOCK", tmp_path / "lock")


def cells(*names: str) -> list[Cell]:
    cell = load(find("laws")).points[0].cell
    return [replace(cell, flows=(replace(cell.flows[0], cc=name),)) for name in names]


def program(folder: Path, end: str) -> Path:
    path = folder / "tcpilot"
    path.write_text(f"#!/bin/sh\necho $$ $* >{folder}/asked\n{end}\n")
    path.chmod(0o755)
    return path


def is_alive(pid: str) -> bool:
    return Path("/proc", pid).exists()


def test_shared_algorithms_are_held_once_until_cells_end(tmp_path: Path) -> None:
    path = program(tmp_path, "echo held by this process: until Ctrl-C\nexec sleep 1000")
    (tmp_path / "bic.bpf.o").touch()
    with held.held(cells("tp_hstcp", "cubic", "tp_bic", "tp_hstcp"), path):
        pid, *words = (tmp_path / "asked").read_text().split()
        assert words == ["cc", "load", "--foreground", str(tmp_path / "bic.bpf.o"), "hstcp"]
        assert is_alive(pid)
    assert not is_alive(pid)


def test_algorithms_stay_held_until_other_campaigns_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(tmp_path, "echo held by this process: until Ctrl-C\nexec sleep 1000")

    def campaign() -> None:
        with held.held(cells("tp_bic"), path):
            pass

    with held.LOCK.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        first = Thread(target=campaign)
        first.start()
        first.join(0.5)
        pid = (tmp_path / "asked").read_text().split()[0]
        assert first.is_alive() and is_alive(pid)
    first.join(10)
    assert not first.is_alive() and not is_alive(pid)
    assert "waiting for another campaign" in capsys.readouterr().err


def test_a_campaign_that_lacks_none_holds_none(tmp_path: Path) -> None:
    with held.held(cells("cubic", "tp_vegas"), program(tmp_path, "exit 1")):
        assert not (tmp_path / "asked").exists()


def test_campaign_fails_if_algorithms_cannot_be_held(tmp_path: Path) -> None:
    path = program(tmp_path, "echo tcpilot: no CAP_BPF >&2; exit 1")
    with (
        pytest.raises(EngineError, match=r"^tcpilot cc load: no CAP_BPF$"),
        held.held(cells("tp_bic"), path),
    ):
        pass


def test_an_algorithm_registered_meanwhile_is_no_error(tmp_path: Path) -> None:
    end = f"echo tp_bic >>{tmp_path}/available; echo tcpilot: tp_bic is loaded already; exit 1"
    with held.held(cells("tp_bic"), program(tmp_path, end)):
        assert "tp_bic" in (tmp_path / "available").read_text()
