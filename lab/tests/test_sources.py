"""Datagrams, flows the other way, and application-limited flows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import write_campaign, write_pair

from tcplab.cli.main import main
from tcplab.engine import need, script
from tcplab.metrics.cell import write_cell
from tcplab.results import writer
from tcplab.scenario import ScenarioError, find, load
from tcplab.scenario.model import Capture, Cell, Flow, Link, cell_from_json
from tcplab.traffic.plan import plan

LINK = Link(rate_mbit=10, rtt_ms=20)
BULK = Flow(name="bulk", cc="cubic")


def planned(*flows: Flow) -> dict[str, Any]:
    return plan(Cell(10, 100, 1, (LINK,), flows), 1)


def test_down_flows_connect_from_right_to_left() -> None:
    found = planned(BULK, replace(BULK, name="down", direction="down"))
    up, down = found["flows"]
    assert (up["netns"], up["to"]) == (None, "10.1.10.2:5201")
    assert (down["netns"], down["to"]) == ("/run/netns/right", "10.1.1.1:5201")
    (left,) = found["serve_too"]
    assert left["netns"] == "/run/netns/left" and found["serve"]["netns"] == "/run/netns/right"
    assert planned(BULK)["serve_too"] == []
    six = planned(BULK, replace(BULK, name="down", direction="down", ip=6))
    assert six["flows"][1]["to"] == "[fd00:1:1::1]:5201"


def test_receiver_adopts_ecn_algorithm_only_with_ecn_enabled() -> None:
    flows = (BULK, replace(BULK, name="dctcp", cc="tp_dctcp"))
    marks = replace(LINK, qdisc="codel", ecn=True)
    asked = Cell(10, 100, 1, (LINK,), flows, sysctl={"net.ipv4.tcp_ecn": "1"})
    cells = [Cell(10, 100, 1, (LINK,), flows), Cell(10, 100, 1, (marks,), flows), asked]
    assert [cell.ecn for cell in cells] == ["0", "1", "1"]
    assert [plan(cell, 1)["serve"]["cc"] for cell in cells] == [None, "tp_dctcp", "tp_dctcp"]
    assert plan(replace(asked, flows=(BULK,)), 1)["serve"]["cc"] is None


def test_datagram_flows_are_probes_with_own_ports() -> None:
    speech = Flow(name="speech", kind="udp", packets_per_s=50, direction="down")
    ping = Flow(name="ping", kind="ping", packets_per_s=10, packet_bytes=56)
    found = planned(BULK, speech, ping)
    assert [group["name"] for group in found["flows"]] == ["bulk"]
    one, two = found["probes"]
    assert (one["netns"], one["to_netns"]) == ("/run/netns/right", "/run/netns/left")
    assert (one["to"], two["to"]) == ("10.1.1.1:5203", "10.1.10.2:5204")
    assert (one["interval_ms"], one["echo"], two["echo"], two["bytes"]) == (20, False, True, 56)
    assert (one["start_s"], one["end_s"]) == (0, 10)
    cell = Cell(10, 100, 1, (LINK,), (BULK, speech))
    assert list(writer.ideal(cell)["groups"]) == ["bulk"]


def test_curl_on_right_fetches_from_nginx_on_left() -> None:
    web = Flow(name="web", kind="http", bytes=5000, connections=3, extra_rtt_ms=10)
    found = planned(BULK, web)
    bulk, group = found["flows"]
    assert (group["netns"], group["to"]) == ("/run/netns/right", "10.1.1.1:8080")
    assert (group["bind"], group["fetch"], bulk["fetch"]) == ("10.1.11.2", True, False)
    assert group["work"] == {"kind": "sized", "bytes": [5000]}
    assert found["foreign"] == [{"netns": "/run/netns/left", "port": 8080}]
    assert planned(BULK)["foreign"] == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "give the files' size"),
        ('bytes = 9\ncc = "bbr"', "have no cc; a sysctl"),
        ('bytes = 9\ndirection = "down"', "have no direction"),
        ("each_s = 3", "are for bulk"),
        ('bytes = 9\n[tuner]\nname = "bpftune"', "bpftune's machine has no nginx"),
    ],
)
def test_downloads_that_cannot_be_are_refused(tmp_path: Path, wrong: str, said: str) -> None:
    file = tmp_path / "web.toml"
    head = 'title = "t"\nabout = "a"\nduration_s = 5\n[[link]]\nrtt_ms = 5\n'
    file.write_text(f'{head}[[flow]]\nname = "web"\nkind = "http"\n{wrong}\n')
    with pytest.raises(ScenarioError, match=said):
        load(file)


def test_sources_have_a_rate_and_pauses() -> None:
    paced = replace(BULK, source_rate_mbit=2.0, on_s=1.0, off_s=3.0)
    (group,) = planned(paced)["flows"]
    assert group["source"] == {"rate_mbit": 2.0, "on_s": 1.0, "off_s": 3.0}
    assert planned(BULK)["flows"][0]["source"] is None


def test_packets_are_captured_where_it_is_asked_for(tmp_path: Path) -> None:
    one = Cell(10, 100, 1, (LINK,), (BULK,), capture=Capture(at="both", snap_bytes=96))
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), tmp_path)
    text = script.text(one, programs)
    assert 'ip netns exec left "$flowgen" capture l0 --out left.pcap --snap-bytes 96' in text
    assert 'ip netns exec right "$flowgen" capture r0x0 --out right.pcap' in text
    assert text.index("capture-left.out capturing") < text.index('flowgen" play plan.json')
    assert text.index('flowgen" play plan.json') < text.index("wait $capture_right")
    assert "af_packet" in need.modules(one)
    plain = Cell(10, 100, 1, (LINK,), (BULK,))
    assert "flowgen capture" not in script.text(plain, programs)
    assert "af_packet" not in need.modules(plain)
    assert cell_from_json(one.as_json()) == one


GOOD = """\
title = "x"
[[link]]
rate_mbit = 10
rtt_ms = 20
[[flow]]
name = "bulk"
[[flow]]
name = "more"
kind = "bulk"
"""


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ('kind = "udp"\nbytes = 5', "9: kind: udp is no connection, and has no bytes"),
        ('kind = "ping"\ncc = "bbr"', "9: kind: ping is no connection, and has no cc"),
        ('kind = "ping"\nstreams = 2', "9: kind: ping is no connection, and has no streams"),
        ('direction = "down"\nextra_rtt_ms = 5', "9: direction: what goes down has one way"),
        ("off_s = 5", "9: off_s: it needs on_s"),
        ('kind = "udp"\nfq_paced = true', "10: fq_paced: it is for flowgen's TCP"),
        ("on_s = 5\nbytes = 5", "7: source_rate_mbit: an application with a rate or pauses"),
    ],
)
def test_invalid_source_settings_are_named(tmp_path: Path, new: str, expected: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(GOOD)
    load(path)
    path.write_text(GOOD.replace('kind = "bulk"', new))
    with pytest.raises(ScenarioError) as caught:
        load(path)
    said = [line.removeprefix(f"{path}:") for line in caught.value.lines]
    assert any(line.startswith(expected) for line in said), said


def test_a_tools_algorithm_is_for_connections_only() -> None:
    points = load(find("rrul")).points
    by_name = {flow.name: flow.cc for flow in points[0].cell.flows}
    assert by_name == {
        "up": "cubic",
        "down": "cubic",
        "speech-up": "default",
        "speech-down": "default",
        "ping": "default",
    }


def test_table_shows_datagram_delay_and_loss_with_flows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = {"first": ["cubic"], "second": ["bbr"]}
    folder = write_campaign(tmp_path, "fairness", axes)
    cell = write_pair(folder, {"first": "cubic", "second": "bbr"}, 0.5)
    assert main(["table", str(folder)]) == 0
    assert "Delay" not in capsys.readouterr().out
    rows = {"t_s": [0.0, 0.1, 0.2, 0.3], "probe": "ping", "delay_ms": [20.0, 30.0, None, 40.0]}
    pd.DataFrame(rows).to_parquet(cell / "probes.parquet")
    groups = write_cell(cell)["groups"]
    assert groups["ping"]["delay_ms_p50"] == 30 and groups["ping"]["datagram_loss"] == 0.25
    assert main(["table", str(folder)]) == 0
    (row,) = [s for s in capsys.readouterr().out.splitlines() if " ping " in s]
    assert [cell.strip() for cell in row.strip("|").split("|")][-3:] == ["30.0", "39.8", "25.00 %"]
