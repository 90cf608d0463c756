"""Every campaign has a cell for a kernel without modules, or a reason against one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcplab.engine import here, relay
from tcplab.engine.job import Settings
from tcplab.scenario import find, load, names
from tcplab.scenario.model import Cell

SETTINGS = Settings("here", "", False, "/bin/flowgen", "/bin/tcpilot", 60)
QDISCS = ("tbf", "htb", "pfifo", "ingress")
CONTROLS = ["reno", "cubic", "bbr"]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with TUN, veth, HTB and TBF, three congestion controls, and a fast processor."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(here, "_available", lambda: CONTROLS)
    monkeypatch.setattr(here, "_no_defaults", lambda _: [])
    monkeypatch.setattr(here, "_cgroups", lambda: here.Path("/sys/fs/cgroup"))
    monkeypatch.setattr(here, "_qdisc", lambda kind: kind in QDISCS)
    monkeypatch.setattr(here.shutil, "which", lambda name: None if name == "modprobe" else name)
    monkeypatch.setattr(relay.Path, "exists", lambda _: True)
    monkeypatch.setattr(relay, "saturation_mbit", lambda *_: 1e5)


def runs(cell: Cell) -> bool:
    return not here.missing([here.fitted(cell)], SETTINGS)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", names())
def test_campaign_has_a_native_cell_or_a_reason(name: str) -> None:
    scenario = load(find(name))
    is_native = any(runs(point.cell) for point in scenario.points)
    assert is_native != bool(scenario.top.machine_only)


@pytest.mark.usefixtures("bare")
def test_a_cell_that_needs_more_does_not_run() -> None:
    cell = load(find("rtt-fairness")).points[0].cell
    assert runs(cell)
    codel = replace(cell, links=(replace(cell.links[0], qdisc="fq_codel"),))
    assert not runs(codel)
    vegas = replace(cell, flows=(replace(cell.flows[0], cc="vegas"),))
    assert runs(vegas) and not runs(replace(vegas, stand_ins=False))
