"""A tuner's cost is measured, in a machine and on this host (pytest -m vm).  Needs the emulator,
root, clang, and cargo's release build (or $TCPLAB_BINARIES)."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from test_lab_vm import OPTIONS, done, out, run

__all__ = ["out"]

pytestmark = pytest.mark.vm

COST = """\
title = "cost"
duration_s = 3
sample_ms = 50

[[link]]
path = "direct"

[[flow]]
name = "short"
kind = "short"
connections = 200

[measure]
programs = true

[sweep.variant]
tools = ["none", "limit", "floor"]
"""

MEMORY = """\
title = "memory"
duration_s = 10

[[link]]
rate_mbit = 50
queue = "100 packets"

# Nothing is learned from connections below 16 KiB, so such a one makes no path.
[[flow]]
name = "spread"
bytes = 20_000
destinations = 500
prefixes = 2

[tuner]
name = "tcpilot"
config = 'replace_defaults = ["cubic", "reno", "bbr"]'

[measure]
memory = true
"""


@pytest.mark.parametrize("engine", ["here", "vm"])
def test_cost_grows_with_work_and_covers_all_events(out: Path, engine: str) -> None:
    outcome, _ = run(out, COST, *OPTIONS[engine])
    assert done(outcome) == 3
    found = {}
    for cell in Path(outcome["folder"]).glob("cells/*"):
        label = json.loads((cell / "cell.json").read_text())["labels"]["variant"]
        values = json.loads((cell / "metrics.json").read_text())["values"]
        found[label] = values.get("program_events"), values.get("program_ns")
    # Events of each end: established, and every change of state.
    assert found["none"] == (None, None)
    assert found["limit"][0] == found["floor"][0] == 16
    assert found["floor"][1] > 2 * found["limit"][1]


def test_a_daemons_memory_and_its_paths_are_kept(out: Path) -> None:
    outcome, _ = run(out, MEMORY, "--engine", "here")
    assert done(outcome) == 1
    (cell,) = Path(outcome["folder"]).glob("cells/*")
    stages = [json.loads(line) for line in (cell / "memory.jsonl").read_text().splitlines()]
    assert [stage["at"] for stage in stages] == ["idle", "full", "queries"]
    assert all(1000 < stage["rss_kb"] <= stage["peak_kb"] for stage in stages)
    known = json.loads((cell / "tuner.json").read_text())["connections"]
    flows = pd.read_parquet(cell / "flows.parquet")
    assert len(flows) == 500
    assert {known[address] for address in flows["to"]} == {1}
