"""Calibration's verdicts, and what of a cell's raw files becomes its directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tcplab.engine import calibration
from tcplab.engine.job import Job, Settings
from tcplab.engine.vm import Ended
from tcplab.results import writer
from tcplab.run.campaign import rejection
from tcplab.run.worker import why
from tcplab.scenario.model import Cell, Flow, Link

LINK = Link(rate_mbit=10, rtt_ms=20)
GOOD = {
    "idle_rtt_ms": 20.05,
    "udp_rate_mbit": 9.98,
    "loss_packets_sent": 200,
    "loss_packets_lost": 0,
    "timer_late_ms_p99": 0.1,
}
PLAY = {
    "sample_late_ms_p99": 0.5,
    "sample_late_ms_max": 1.0,
    "rows": 2,
    "errors": 1,
    "first_error": "no route",
}


def cell(link: Link = LINK) -> Cell:
    return Cell(10, 100, 1, (link,), (Flow(name="a", cc="cubic"), Flow(name="b", cc="none")))


def verdict(link: Link = LINK, play: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    return calibration.verdict(cell(link), [{**GOOD, **other}], play or PLAY)


def bad(found: dict[str, Any]) -> list[str]:
    return [name for name, entry in found.items() if not entry["ok"]]


def test_a_path_that_is_as_asked_passes() -> None:
    assert bad(verdict()) == []


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("idle_rtt_ms", {"idle_rtt_ms": 25.0}),
        ("idle_rtt_ms", {"idle_rtt_ms": None}),
        ("udp_rate_mbit", {"udp_rate_mbit": 9.0}),
        ("udp_rate_mbit", {"udp_rate_mbit": None}),
        ("loss", {"loss_packets_lost": 1}),
        ("timer_late_ms_p99", {"timer_late_ms_p99": 12.0}),
    ],
)
def test_rejection_names_the_failed_check(name: str, other: dict[str, Any]) -> None:
    found = verdict(**other)
    assert bad(found) == [name]
    assert name in rejection({"calibration": found})


def test_a_clock_that_stood_still_is_noticed() -> None:
    assert bad(verdict(play={**PLAY, "sample_late_ms_max": 600.0})) == ["sample_late_ms_max"]
    assert bad(verdict(play={**PLAY, "sample_late_ms_p99": 250.0})) == ["sample_late_ms_p99"]


def test_one_late_sample_does_not_reject_a_cell() -> None:
    assert bad(verdict(play={**PLAY, "sample_late_ms_max": 250.0})) == []


@pytest.mark.parametrize(("lost", "ok"), [(100, True), (62, True), (40, False), (160, False)])
def test_random_loss_passes_within_sampling_error(lost: int, ok: bool) -> None:
    link = Link(rate_mbit=10, rtt_ms=20, loss_percent=10)
    found = verdict(link, udp_rate_mbit=9.0, loss_packets_sent=1000, loss_packets_lost=lost)
    assert (bad(found) == []) is ok


def test_verdict_comes_from_the_worst_link() -> None:
    two = Cell(10, 100, 1, (LINK, Link(name="other", rate_mbit=5)), (Flow(name="a"),))
    found = calibration.verdict(two, [GOOD, GOOD], PLAY)
    assert found["udp_rate_mbit"]["link"] == "other"
    assert bad(found) == ["idle_rtt_ms", "udp_rate_mbit"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A script's files, cut short."""
    folder = tmp_path / "campaign" / "work" / "0000-x.0"
    folder.mkdir(parents=True)
    (folder / "calibrate-0.json").write_text(json.dumps(GOOD))
    (folder / "play.json").write_text(json.dumps(PLAY))
    (folder / "release").write_text("6.12.1\n")
    (folder / "sysctls").write_text("net.ipv4.tcp_rmem = 4096\t131072\t6291456\n")
    (folder / "started").write_text("12.5\n")
    (folder / "ended").write_text("23.75\n")
    state = '@@ r1\n[{"kind": "pfifo", "dev": "b0"}, {"kind": "noqueue", "dev": "lo"}]\n@@ r2\n\n'
    (folder / "qdisc-before").write_text(state)
    (folder / "qdisc-after").write_text(state)
    (folder / "tc-r1").write_text("qdisc add dev b0\n")
    (folder / "flows.csv").write_text(
        "flow,group,to,local_port,cc_start,cc_used,start_s,end_s,wanted_bytes,bytes,fct_s,"
        "standstill_s,retransmitted_packets,sent_packets,ecn,warmup,"
        "srtt_us,busy_s,window_limited_s,buffer_limited_s,error\n"
        '0,a,10.1.10.2,4000,cubic,cubic,0.1,10.0,0,1000,,,3,9,false,false,20000,9.5,0.25,0,""\n'
        '1,a,10.1.10.2,4001,,,0.2,,0,0,,,0,0,false,true,0,,,,"cannot connect, no route"\n'
    )
    (folder / "samples.csv").write_text(
        "t_s,flow,link,cwnd_packets,ssthresh_packets,srtt_us,min_rtt_us,delivery_rate,"
        "pacing_rate,bytes_acked,retransmitted_packets,sent_packets,lost_packets,inflight_packets,cc\n"
        "0.1,0,,10,,20000,20000,1000,,0,0,9,0,1,cubic\n"
    )
    (folder / "queues.csv").write_text(
        "t_s,link,qdisc,backlog_bytes,backlog_packets,drops,marks,sent_bytes,sent_packets\n"
        "0.1,bottleneck,pfifo,0,0,0,,0,0\n"
    )
    return folder


def job(work: Path) -> Job:
    settings = Settings("vm", "6.12", True, "/bin/flowgen", "/bin/tcpilot", 60)
    folder = str(work.parent.parent)
    return Job("0000-x.0", {"qdisc": "pfifo"}, 0, 1, 0, cell().as_json(), folder, settings)


def test_a_cell_becomes_tables_and_provenance(work: Path) -> None:
    place = writer.write(job(work), cell(), work, None, wall_s=2)
    content = json.loads((place / "cell.json").read_text())
    assert content["status"] == "ok"
    assert content["kernel"] == "6.12.1" and content["virtual_s"] == 11.25
    assert content["sysctls"] == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
    assert content["qdisc_state"]["after"] == [{"ns": "r1", "kind": "pfifo", "dev": "b0"}]
    assert content["commands"] == {"r1": ["qdisc add dev b0"]}
    assert content["ideal"]["groups"] == {
        "a": {"base_rtt_ms": 20, "links": ["bottleneck"], "count": 1}
    }
    flows = pd.read_parquet(place / "flows.parquet")
    assert list(flows["cc_wanted"]) == ["cubic", "cubic"]
    assert flows["error"].isna()[0] and flows["error"][1] == "cannot connect, no route"
    assert flows["fct_s"].isna().all() and list(flows["warmup"]) == [False, True]


@pytest.mark.parametrize(
    ("window", "threshold", "status"),
    [("1000000", "", "ok"), ("10", "2183145701", "rejected"), ("935633873", "40", "rejected")],
)
def test_implausible_cwnd_or_ssthresh_rejects_a_cell(
    work: Path, window: str, threshold: str, status: str
) -> None:
    samples = work / "samples.csv"
    samples.write_text(samples.read_text().replace(",10,,20000", f",{window},{threshold},20000"))
    content = json.loads(
        (writer.write(job(work), cell(), work, None, wall_s=2) / "cell.json").read_text()
    )
    assert content["status"] == status
    assert bad(content["calibration"]) == (["window_packets_max"] if status != "ok" else [])


def test_failed_cell_keeps_its_log_but_no_tables(work: Path) -> None:
    (work / "script.log").write_text("tcplab: failed: flowgen: no\n")
    place = writer.write(job(work), cell(), work, "flowgen: no", wall_s=2)
    assert json.loads((place / "cell.json").read_text())["status"] == "failed"
    assert sorted(path.name for path in place.iterdir()) == ["cell.json", "script.log"]


def test_cell_fails_if_no_connection_succeeds(work: Path) -> None:
    (work / "play.json").write_text(json.dumps({**PLAY, "errors": 2}))
    place = writer.write(job(work), cell(), work, None, wall_s=2)
    content = json.loads((place / "cell.json").read_text())
    assert content["error"] == "no connection succeeded: no route"
    assert content["status"] == "failed"


def test_failed_write_leaves_no_partial_cell(work: Path) -> None:
    (work / "flows.csv").unlink()
    with pytest.raises(OSError):
        writer.write(job(work), cell(), work, None, wall_s=2)
    assert not (work.parent.parent / "cells").exists()
    assert list(work.parent.iterdir()) == [work]


def test_a_script_says_why_it_failed() -> None:
    assert why(Ended(0, "tcplab: step done\n")) is None
    said = "tcplab: step network\ntcplab: failed: tc-r1: no such qdisc\n"
    assert why(Ended(1, said)) == "tc-r1: no such qdisc"
    assert why(Ended(2, "sh: syntax error")) == "the script ended with status 2: sh: syntax error"
