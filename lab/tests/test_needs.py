"""A campaign's needs are checked before it starts, and everything missing is listed at once."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tcplab.cli.main import main
from tcplab.engine import here, programs, vm
from tcplab.engine.errors import EngineError
from tcplab.engine.job import Settings
from tcplab.results import manifest
from tcplab.run import campaign
from tcplab.scenario import find, load
from tcplab.scenario.model import Cell
from tcplab.vm import roots
from tcplab.vm.errors import SetupError


def settings(folder: Path, engine: str = "here") -> Settings:
    flowgen, tcpilot = (str(folder / name) for name in ("flowgen", "tcpilot"))
    return Settings(engine, "6.12", False, flowgen, tcpilot, 60)  # type: ignore[arg-type]


def cell(name: str, **labels: str) -> Cell:
    points = load(find(name)).points
    return next(p.cell for p in points if labels.items() <= p.labels.items())


@pytest.fixture
def binaries(tmp_path: Path) -> Path:
    """Silent programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("flowgen", "tcpilot", "pathrelay"):
        (folder / name).write_text(f"#!/bin/sh\n: {name}\n")
        (folder / name).chmod(0o755)
    return folder


def test_all_that_is_missing_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = ["run", "choice", "--only", "variant=tcpilot", "--engine", "here", "--virtual-time"]
    words += ["--binaries", str(tmp_path / "nowhere"), "--scheduler", "local"]
    assert main([*words, "--out", str(tmp_path / "results")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert all(line.startswith("tcplab: ") for line in said)
    for what in (
        "--scheduler needs dask; run: pip install dask distributed",
        "engine here needs root",
        "nowhere/flowgen is missing",
        "nowhere/tcpilot is missing",
        "--virtual-time needs --engine vm",
    ):
        assert sum(what in line for line in said) == 1, what
    assert not (tmp_path / "results").exists()


def test_a_missing_scheduler_is_told_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcplab.run import cluster

    monkeypatch.setattr(cluster, "_CONNECT_S", 0.2)
    words = ["run", "bbr", "--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path / "results")]
    assert main([*words, "--engine", "here"]) == 1
    assert "there is no dask scheduler" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_flowgen_without_quic_is_told(binaries: Path) -> None:
    flowgen = binaries / "flowgen"
    quic = cell("quic-single", transport="quic")
    assert programs.missing([quic], settings(binaries)) == []
    other = binaries / "old"
    other.mkdir()
    text = (
        "#!/bin/sh\necho 'build it with `cargo build -p flowgen --features mpquic`' >&2; exit 2\n"
    )
    (other / "flowgen").write_text(text)
    (other / "flowgen").chmod(0o755)
    (told,) = programs.missing([quic], settings(other))
    assert "was built without QUIC; run: cargo build" in told
    assert programs.missing([cell("bbr", cc="bbr")], settings(other)) == []
    assert flowgen.exists()


def test_a_machine_lists_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_kernel(name: str) -> None:
        raise SetupError(f"no kernel {name}")

    def no_emulator() -> None:
        raise SetupError("no emulator")

    monkeypatch.setattr(vm, "fetch", no_kernel)
    monkeypatch.setattr(vm.qemu, "program", no_emulator)
    monkeypatch.setattr(vm.roots, "missing", lambda name: [f"no root {name}"])
    peer = cell("bulk", variant="bpftune")
    measured = replace(peer, measure=replace(peer.measure, acks=True))
    found = vm.missing([measured], settings(tmp_path, "vm"))
    assert [line for line in found if "busybox" not in line] == [
        "no emulator",
        "no root sid",
        "measure.acks needs Python; bpftune's machine has none",
        "no kernel 6.12",
    ]


def test_a_root_needs_debootstrap_and_root(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots.shutil, "which", lambda _: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert roots.missing("sid") == [
        "debootstrap is not installed; run: python -m tcplab.vm setup",
        "only root can build the root sid",
    ]
    place = cache / "roots" / "sid"
    place.mkdir(parents=True)
    packages = {"packages": roots._RECIPES["sid"].packages}
    (place / "tcplab-root.json").write_text(json.dumps(packages))
    assert roots.missing("sid") == []


def test_a_host_without_cgroups_runs_no_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_cgroups", lambda: None)
    lacks = "a mounted cgroup v2 for the tuner"
    assert lacks in here._in_kernel([cell("bulk", variant="tcpilot")])
    assert lacks not in here._in_kernel([cell("bulk", variant="none")])


@pytest.fixture
def satisfied(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine with everything."""
    monkeypatch.setattr(here, "missing", lambda *_: [])
    monkeypatch.setattr(programs, "missing", lambda *_: [])


@pytest.mark.usefixtures("satisfied")
def test_a_manifest_has_the_programs_hashes(tmp_path: Path, binaries: Path) -> None:
    (binaries / "mine.bpf.o").write_bytes(b"an object of a researcher")
    scenario = load(find("bbr"), quick=True)
    flow = replace(scenario.points[0].cell.flows[0], cc="tp_mine")
    point = replace(scenario.points[0], cell=replace(scenario.points[0].cell, flows=(flow,)))
    mine = replace(scenario, points=(point,))
    folder = campaign.start(mine, settings(binaries), tmp_path / "out", ["tcplab"])
    found = manifest.read(folder)
    assert {Path(name).name for name in found["programs"]} >= {"flowgen", "tcpilot"}
    for name, digest in (found["programs"] | found["bpf_objects"]).items():
        assert hashlib.sha256(Path(name).read_bytes()).hexdigest() == digest
    assert [Path(name).name for name in found["bpf_objects"]] == ["mine.bpf.o"]
    assert found["commit"]


@pytest.mark.usefixtures("satisfied")
def test_a_resumed_campaign_notes_changed_programs(tmp_path: Path, binaries: Path) -> None:
    scenario = load(find("bbr"), quick=True)
    how = settings(binaries)
    folder = campaign.start(scenario, how, tmp_path / "out", ["tcplab"])
    campaign.resumed(scenario, how, folder, [])
    assert "resumed" not in manifest.read(folder)
    (binaries / "flowgen").write_text("#!/bin/sh\n# another\n")
    for _ in range(2):
        campaign.resumed(scenario, how, folder, [])
    (again,) = manifest.read(folder)["resumed"]
    assert again["programs"] != manifest.read(folder)["programs"]


def test_limits_are_hashed_as_objects(
    cache: Path, binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = programs.hashes([cell("bulk", variant="none")], settings(binaries))
    assert found["bpf_objects"] == {}
    found = programs.hashes([cell("cost", variant="limit")], settings(binaries))
    (name,) = found["bpf_objects"]
    assert Path(name).is_relative_to(cache) and Path(name).name.startswith("limit")


@pytest.mark.usefixtures("satisfied")
def test_a_full_disk_is_told_before_the_start(
    tmp_path: Path, binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "_LEAST_FREE_BYTES", 10**18)
    with pytest.raises(EngineError, match="make room or give another --out"):
        campaign.start(load(find("bbr")), settings(binaries), tmp_path / "out", [])
    assert not (tmp_path / "out").exists()
