"""The senders of other people's programs: their draw, their counting, and their page."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tcplab.studies.publish import MEASURED

FILE = Path(__file__).parents[1] / "senders" / "senders.py"
DATA = MEASURED / "data" / "watch-senders.jsonl.xz"


@pytest.fixture(scope="module")
def senders() -> ModuleType:
    spec = importlib.util.spec_from_file_location("senders", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["senders"] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


def test_published_flows_are_the_drawn_ones(senders: ModuleType) -> None:
    drawn = {cell.name: cell for cell in senders.plan()}
    found = {cell["name"]: cell for cell in senders.kept(DATA)}
    assert found.keys() == drawn.keys()
    for name, cell in found.items():
        of = drawn[name]
        path = (of.rate_mbit, of.rtt_ms, of.queue_bdp, of.before)
        assert path == tuple(cell[k] for k in ("rate_mbit", "rtt_ms", "queue_bdp", "before"))
        assert [(f.kind, f.cc) for f in of.flows] == [(f["kind"], f["cc"]) for f in cell["flows"]]


def test_page_has_the_table_of_the_data(senders: ModuleType) -> None:
    assert senders.table(senders.kept(DATA)) in (MEASURED / "watch-senders.md").read_text()


def test_other_group_is_wrong_and_unknown_is_not(senders: ModuleType) -> None:
    def flow(group: str, algorithm: str | None = None) -> dict[str, Any]:
        about = {"kind": "http1", "cc": "cubic", "wanted": "loss", "falsely_certain": False}
        return {**about, "group": group, "algorithm": algorithm}

    flows = [flow("loss", "cubic"), flow("loss", "reno"), flow("model"), flow("unknown")]
    late = {"fits": False, "flows": [flow("model")]}
    row = senders.table([{"fits": True, "flows": [*flows, flow("mouse")]}, late]).splitlines()[2]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["nginx, HTTP/1.1, TLS", "loss", *["5", "2", "1", "1", "1", "1", "0"]]


def test_an_algorithm_is_read_from_its_own_port(senders: ModuleType) -> None:
    listed = (
        "0 0 10.1.0.1:8001 10.3.0.3:40000\n\t ts sack bbr wscale:10\n"
        "0 0 [::ffff:10.1.0.1]:8002 [::ffff:10.3.0.4]:40000\n\t ts sack cubic wscale:10\n"
    )
    assert senders.used(listed, 8001) == {"bbr"}
    assert senders.used(listed, 8002) == {"cubic"}
    assert senders.used(listed, 8003) == set()


def test_a_verdict_is_the_last_of_the_largest_flow(senders: ModuleType, tmp_path: Path) -> None:
    cell = next(c for c in senders.plan() if len(c.flows) == 1 and c.flows[0].cc == "reno")
    late = json.dumps({way: {"late_us": {"p99": 9}, "full": 0} for way in ("there", "back")})
    (tmp_path / "relay.json").write_text(f"ready\n{late}\n")
    (tmp_path / "sockets.txt").write_text("0 0 10.1.0.1:8000 x\n\t reno wscale\n")
    keys = ("algorithm", "confidence", "group_confidence", "rounds", "spin", "rate", "drops")
    blank = dict.fromkeys((*keys, "min_rtt_us"), 0)

    def line(ident: int, moved: int, group: str, why: str = "") -> str:
        flow = {"type": "flow", "flow": "10.1.0.1:8000 > 10.3.0.2:4", "id": ident, "bytes": moved}
        return json.dumps({**flow, "group": group, "why": why, **blank})

    lines = [line(1, 9, "loss"), line(2, 50, "model", "a certain sign"), line(2, 90, "loss")]
    (tmp_path / "watch.jsonl").write_text("\n".join(lines))
    (flow,) = senders.outcomes(cell, tmp_path)["flows"]
    assert (flow["group"], flow["wanted"], flow["falsely_certain"]) == ("loss", "loss", True)
    (tmp_path / "sockets.txt").write_text("0 0 10.1.0.1:8000 x\n\t bbr wscale\n")
    with pytest.raises(RuntimeError, match="instead of reno"):
        senders.outcomes(cell, tmp_path)
