"""Links with a trace: the traces, and the script of a cell with one."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tcplab import topology
from tcplab.engine import need, script
from tcplab.results import writer
from tcplab.scenario import ScenarioError, load, traces
from tcplab.scenario.model import Cell, Flow, Link
from tcplab.traffic.plan import plan

TRACED = Link(trace="lte-walk", rtt_ms=40, queue="100 packets")
CELL = Cell(10, 100, 1, (TRACED,), (Flow(name="a", cc="cubic"),))
PROGRAMS = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/x"))


@pytest.mark.parametrize("name", traces.names())
def test_recipes_reproduce_the_laboratorys_traces(name: str) -> None:
    made = traces.make(traces.RECIPES[name])
    assert traces.text(name) == "".join(f"{ms}\n" for ms in made)
    assert made == sorted(made) and made[-1] == 20_000
    # Twenty seconds are a small sample of a wandering rate.
    assert traces.mean_mbit(traces.text(name)) == pytest.approx(
        traces.RECIPES[name].mean_mbit, rel=0.4
    )


def test_a_rate_that_stands_still_is_even() -> None:
    made = traces.make(traces.Recipe(10, 12.0, 0.0, 1.0, 0.0, 0.0, 1))
    assert traces.mean_mbit("".join(f"{ms}\n" for ms in made)) == pytest.approx(12, rel=0.001)
    assert max(b - a for a, b in pairwise(made)) <= 2


def test_relay_is_the_bottleneck_with_delay_behind() -> None:
    wires = topology.ip_lines(CELL)
    assert not any("b0" in line for line in wires[""])
    assert "address add 10.1.2.1/24 dev b0" in wires["r1"]
    assert topology.tc_lines(CELL) == {
        "r1": [],
        "r2": ["qdisc add dev f0x0 root handle 30: netem limit 100000 delay 40ms"],
    }
    assert topology.relay_links(CELL, 1) == [
        "near=r1/b0,far=r2/n0,trace=trace-0,queue_bytes=151400"
    ]
    assert plan(CELL, 1)["queues"] == []
    assert {"tun", "sch_netem"} <= set(need.modules(CELL))
    assert "sch_pfifo" not in need.modules(CELL)
    found = script.files(CELL, 1, PROGRAMS)
    assert found["trace-0"] == traces.text("lte-walk")
    assert 'play plan.json --out . --signal "$relay"' in found[script.SCRIPT]
    assert "kill $relay" in found[script.SCRIPT]


def test_relay_report_becomes_queue_samples(tmp_path: Path) -> None:
    sample = {
        "at_ns": 5_100_000_000,
        "queue_bytes": 3000,
        "queue_packets": 2,
        "dropped": 7,
        "passed_bytes": 15_000,
        "passed_packets": 10,
        "offered_bytes": 15_040,
    }
    late = {**sample, "at_ns": 16_000_000_000}
    report: dict[str, Any] = {"there": {"samples": [sample, late]}, "back": {}}
    (tmp_path / "relay.json").write_text(json.dumps(report) + "\n")
    (tmp_path / "play.json").write_text(json.dumps({"start_ns": 5_000_000_000}))
    found = writer._traced_queues(CELL, tmp_path)
    # What came after the end does not count.
    assert isinstance(found, pd.DataFrame) and len(found) == 1
    row = found.iloc[0]
    assert (row["t_s"], row["link"], row["backlog_bytes"]) == (0.1, "bottleneck", 3000)
    assert (row["drops"], row["offered_bytes"]) == (7, 15_040)
    mean = traces.mean_mbit(traces.text("lte-walk"))
    assert writer.ideal(CELL)["links"]["bottleneck"]["rate_mbit"] == pytest.approx(mean, abs=1e-3)


GOOD = """\
title = "x"
[[link]]
trace = "lte-drive"
queue = "100 packets"
[[flow]]
name = "a"
cc = "cubic"
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            '"lte-drive"',
            '"lte-drvie"',
            "3: trace: 'lte-drvie' is no file, and no trace of the laboratory; did you mean "
            "'lte-drive'?",
        ),
        ('"100 packets"', '"1 bdp"', "3: trace: give its queue in packets or bytes"),
        ('"100 packets"', '"100 packets"\nrate_mbit = 5', "3: trace: a trace is the bottleneck"),
        ('"100 packets"', '"9 packets"\nqdisc = "codel"', "3: trace: a trace is the bottleneck"),
    ],
)
def test_invalid_trace_settings_are_named(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(GOOD)
    load(path)
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        load(path)
    said = [line.removeprefix(f"{path}:") for line in caught.value.lines]
    assert any(line.startswith(expected) for line in said), said


def test_own_trace_files_are_read_and_validated(tmp_path: Path) -> None:
    good = tmp_path / "own.trace"
    good.write_text("0\n10\n")
    assert traces.mean_mbit(traces.text(str(good))) == pytest.approx(2.4)
    for wrong in ("", "5\n4\n", "0\n", "a\n"):
        good.write_text(wrong)
        with pytest.raises(ValueError, match="is no trace"):
            traces.text(str(good))
