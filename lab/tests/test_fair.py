"""Cells with `tcpilot watch --fair` in place of the bottleneck's qdisc."""

from __future__ import annotations

from tcplab import topology
from tcplab.engine import need, watcher
from tcplab.scenario import find, load
from tcplab.scenario.model import Cell
from tcplab.traffic.plan import plan


def cell(**labels: str) -> Cell:
    for point in load(find("watch-fair")).points:
        if all(point.labels[axis] == label for axis, label in labels.items()):
            return point.cell
    raise AssertionError(labels)


def test_fair_replaces_the_shaper_at_its_rate() -> None:
    lines = "\n".join(watcher.start(cell(flows="32", variant="groups")))
    assert "--fair --rate 20" in lines
    assert "--actions none" in lines
    assert lines.index("qdisc del dev b0 root") < lines.index("watch b0")


def test_samples_come_from_the_fair_queue() -> None:
    (queue,) = plan(cell(flows="8", variant="groups, actions"), 1)["queues"]
    assert queue["handle"] == topology.FAIR_HANDLE
    (queue,) = plan(cell(flows="8", variant="FIFO"), 1)["queues"]
    assert queue["handle"] == topology.QDISC_HANDLE


def test_fair_needs_htb_and_filters() -> None:
    assert {"sch_htb", "cls_bpf"} <= set(need.modules(cell(variant="groups")))
    assert "sch_htb" not in need.modules(cell(variant="SFQ"))


def test_mixes_have_as_many_flows_as_they_say() -> None:
    for label in ("2: cubic, bbr", "2: cubic, vegas", "2: bbr, veno", "8", "32", "64"):
        flows = cell(flows=label).present()
        assert sum(flow.streams for flow in flows) == int(label.split(":")[0])


def test_unwatched_cell_has_no_commands_or_files() -> None:
    fifo = cell(flows="8", variant="FIFO")
    assert watcher.start(fifo) == watcher.stop(fifo) == []
    assert watcher.files(fifo) == ()
    assert watcher.files(cell(variant="groups")) == ("watch.jsonl",)
