"""The laboratory end to end, in real machines: every qdisc and kind of traffic, and every way a run
can go wrong.  Needs the emulator, cargo's release build (or $TCPLAB_BINARIES), and, for the engine
`here` and the full disk, root."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tcplab.scenario import traces

pytestmark = pytest.mark.vm

ONE = """\
title = "one"
duration_s = 1

[[link]]
rate_mbit = 10
rtt_ms = 10
queue = "50 packets"

[[flow]]
name = "bulk"
cc = "cubic"
"""
SWEEP = """
[sweep.cc]
set = "flow.bulk.cc"
values = ["reno", "cubic", "bbr"]
"""
SEVERAL = ONE + SWEEP


# Works on a kernel without netem and modules.
PLAIN = ONE.replace("rtt_ms = 10\n", "")
OPTIONS = {"vm": ["--batch", "1"], "here": ["--engine", "here"]}


@pytest.fixture
def out() -> Iterator[Path]:
    # The machine has a /tmp of its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tcplab-test-") as folder:
        yield Path(folder)


def command(out: Path, text: str, *options: str) -> list[str]:
    path = out / "scenario.toml"
    path.write_text(text)
    return [*tcplab(), "run", str(path), "--out", str(out / "results"), "--json", *options]


def tcplab() -> list[str]:
    return [sys.executable, "-m", "tcplab"]


def binaries() -> list[str]:
    folder = os.environ.get("TCPLAB_BINARIES")
    return ["--binaries", folder] if folder else []


def run(
    out: Path, text: str, *options: str, status: int = 0
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    line = command(out, text, *binaries(), *options)
    answer = subprocess.run(line, capture_output=True, text=True, timeout=900)
    assert answer.returncode == status, answer.stderr
    return (json.loads(answer.stdout) if answer.stdout else {}), answer


def done(outcome: dict[str, Any]) -> int:
    """Cells run; on this host's own clock a busy host may have them rejected, rightly."""
    assert outcome["failed"] == 0, outcome
    return int(outcome["ok"] + outcome["rejected"])


def cells(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in sorted(folder.glob("cells/*/cell.json"))]


def processes(mark: Path) -> list[str]:
    """Command lines naming a folder, other than ours."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(mark) in line:
            found.append(line)
    return found


def assert_nothing_left(out: Path) -> None:
    deadline = time.monotonic() + 20
    while processes(out) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes(out) == []
    assert list(out.glob("results/*/work")) == []


def test_every_qdisc_carries_every_kind_of_traffic(out: Path) -> None:
    flows = """
[[flow]]
name = "request"
kind = "request"
cc = "cubic"
think_ms = 20

[[flow]]
name = "pareto"
kind = "pareto"
cc = "bbr"
streams = 4
connections = 40
pareto_scale_bytes = 200
pareto_most_bytes = 20000

[[flow]]
name = "short"
kind = "short"
streams = 2
gap_ms = 50

[sweep.qdisc]
set = "link.bottleneck.qdisc"
values = ["pfifo", "codel", "fq_codel", "red", "pie", "sfq", "red_sfq", "cake", "fq"]
"""
    outcome, _ = run(out, ONE.replace("= 1\n", "= 5\n", 1) + flows, "--batch", "9")
    assert (outcome["ok"], outcome["rejected"], outcome["failed"]) == (9, 0, 0)
    folder = Path(outcome["folder"])
    for cell in cells(folder):
        place = folder / "cells" / cell["id"]
        table = pd.read_parquet(place / "flows.parquet")
        # A full queue may drop a SYN; its retransmission after a second is too late for the last,
        # short connections.
        wrong = table[table["error"].notna()]
        assert set(wrong["error"]) <= {"not established when its time was over"}, wrong["error"]
        assert set(wrong["group"]) <= {"short"} and len(wrong) <= 2, (cell["labels"], wrong)
        table = table[table["error"].isna()]
        assert set(table["group"]) == {"bulk", "request", "pareto", "short"}
        assert (table["group"] == "pareto").sum() == 40, cell["labels"]
        assert table.loc[table["group"] == "pareto", "cc_used"].eq("bbr").all()
        assert table.loc[table["group"] != "bulk", "fct_s"].notna().all()
        bulk = table[table["group"] == "bulk"].iloc[0]
        assert bulk["bytes"] > 100_000 and bulk["cc_used"] == "cubic"
        queues = pd.read_parquet(place / "queues.parquet")
        kind = {"red_sfq": "red"}.get(cell["labels"]["qdisc"], cell["labels"]["qdisc"])
        assert set(queues["qdisc"]) == {kind}
        assert queues["sent_bytes"].is_monotonic_increasing and len(queues) >= 20
        samples = pd.read_parquet(place / "samples.parquet")
        assert samples["srtt_us"].max() > 10_000
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] == "complete" and manifest["engine"] == "vm"
    assert (out / "results" / "latest").resolve() == folder
    assert_nothing_left(out)


def test_path_and_its_changes_follow_the_scenario(out: Path) -> None:
    text = ONE.replace("duration_s = 1", "duration_s = 6").replace(
        "rtt_ms = 10", "rtt_ms = 30\njitter_ms = 2\nloss_percent = 1\nloss_burst_packets = 3"
    )
    change = '[[change]]\nat_s = 3\nlink = "bottleneck"\nrate_mbit = 2\nloss_percent = 0\n'
    outcome, _ = run(out, text.replace('"cubic"', '"bbr"') + change)
    assert outcome["ok"] == 1
    (cell,) = cells(Path(outcome["folder"]))
    assert abs(cell["calibration"]["idle_rtt_ms"]["measured"] - 30) < 4
    queues = pd.read_parquet(Path(outcome["folder"]) / "cells" / cell["id"] / "queues.parquet")
    rate = queues.set_index("t_s")["sent_bytes"].diff() * 8 / 0.1 / 1e6
    assert rate.loc[1:3].median() > 8 and rate.loc[4:6].median() == pytest.approx(2, rel=0.1)


def test_destinations_have_their_given_paths_and_visits(out: Path) -> None:
    link = ONE.partition("[[flow]]")[0].replace("duration_s = 1", "duration_s = 15")
    flow = """
[[flow]]
name = "cold"
cc = "cubic"
destinations = 60
prefixes = 6
destination_rtt_ms = [20, 60]
destination_loss_percent = [0, 10]
vary = "prefix"
sizes_bytes = "10000 to 20000"
arrive_within_s = 10
[sweep.ip]
set = "flow.cold.ip"
values = [4, 6]
"""
    outcome, _ = run(out, link + flow)
    assert outcome["ok"] == 2
    for cell in cells(Path(outcome["folder"])):
        place = Path(outcome["folder"]) / "cells" / cell["id"]
        flows = pd.read_parquet(place / "flows.parquet")
        assert flows["error"].isna().all() and flows["to"].nunique() == 60
        assert sorted(flows["prefix"].unique()) == [0, 1, 2, 3, 4, 5]
        # Every other prefix is near and clean.
        far = flows["prefix"] % 2 == 1
        assert flows.loc[~far, "retransmitted_packets"].sum() == 0
        assert flows.loc[far, "retransmitted_packets"].sum() > 10
        samples = pd.read_parquet(place / "samples.parquet")
        least_ms = flows["flow"].map(samples.groupby("flow")["min_rtt_us"].min()) / 1e3
        assert least_ms[~far].min() == pytest.approx(20, abs=0.5)
        assert least_ms[far].min() == pytest.approx(60, abs=0.5)
        told = json.loads((place / "metrics.json").read_text())["destinations"]
        assert {row["rtt_ms"] for row in told} == {20, 60} and len(told) == 60


LINKS = """
[sweep.variant]
values = [
    { label = "plain", link.bottleneck.back_rate_mbit = 10 },
    { label = "second", link.bottleneck.second_rate_mbit = 4 },
    { label = "acks", link.bottleneck.back_rate_mbit = 0.1, SMALL },
    { label = "thinned", link.bottleneck.back_rate_mbit = 0.1, SMALL, CAKE },
    { label = "gro", link.bottleneck.back_rate_mbit = 10, link.bottleneck.receiver_gro_us = 5000 },
    { label = "whole", link.bottleneck.sender_gso = true, measure.acks = true },
    { label = "slots", link.bottleneck.back_slot_ms = 10 },
    { label = "fq_pie", link.bottleneck.qdisc = "fq_pie", OPTIONS },
    { label = "version6", flow.bulk.ip = 6 },
]
"""
SHORT = {
    "SMALL": 'link.bottleneck.back_queue = "60 packets"',
    "CAKE": 'link.bottleneck.back_qdisc = "cake", '
    'link.bottleneck.back_qdisc_options = "ack-filter"',
    "OPTIONS": 'link.bottleneck.qdisc_options = "target 5ms"',
}


def test_link_settings_take_effect_in_both_directions(out: Path) -> None:
    text = ONE.replace("duration_s = 1", "duration_s = 5").replace("rtt_ms = 10", "rtt_ms = 40")
    links = LINKS
    for name, words in SHORT.items():
        links = links.replace(name, words)
    outcome, _ = run(out, text + links)
    assert (outcome["ok"], outcome["rejected"], outcome["failed"]) == (9, 0, 0)
    goodput, acks, packets, ack_ns = {}, {}, {}, {}
    for cell in cells(Path(outcome["folder"])):
        variant, place = cell["labels"]["variant"], Path(outcome["folder"]) / "cells" / cell["id"]
        values = json.loads((place / "metrics.json").read_text())["values"]
        goodput[variant], ack_ns[variant] = values["goodput_mbit"], values.get("ack_ns")
        queues = pd.read_parquet(place / "queues.parquet").groupby("link")["sent_packets"].max()
        acks[variant], packets[variant] = (
            int(queues.get("bottleneck/back", 0)),
            int(queues["bottleneck"]),
        )
    assert goodput["plain"] > 8 and 3 < goodput["second"] < 4
    # At 0.1 Mbit/s there is room for 190 acknowledgements a second; cake leaves out the older.
    assert goodput["acks"] < 0.8 * goodput["plain"] < goodput["thinned"]
    # Packets of the same 4 ms are joined, three or four; TCP acknowledges every second anyway.
    assert acks["gro"] < 0.9 * acks["plain"]
    assert goodput["slots"] > 8 and goodput["fq_pie"] > 8
    # The bottleneck sends packets, whatever the sender handed over.
    assert goodput["whole"] > 8 and packets["whole"] > 0.95 * packets["plain"]
    assert ack_ns["whole"] > 100 and ack_ns["plain"] is None
    # 20 bytes more of each packet are header.
    assert 0.95 < goodput["version6"] / goodput["plain"] < 0.99


def test_bidirectional_data_delays_datagrams_in_both_queues(out: Path) -> None:
    text = ONE.replace("duration_s = 1", "duration_s = 6").replace(
        '"50 packets"', '"50 packets"\nback_rate_mbit = 20\nback_queue = "100 packets"'
    )
    flows = """
[[flow]]
name = "down"
direction = "down"
cc = "cubic"
[[flow]]
name = "pauses"
cc = "cubic"
source_rate_mbit = 1
on_s = 1
off_s = 1
[[flow]]
name = "speech"
kind = "udp"
[[flow]]
name = "ping"
kind = "ping"
packets_per_s = 20

[capture]
at = "right"
"""
    outcome, _ = run(out, text + flows)
    assert outcome["ok"] == 1
    (cell,) = cells(Path(outcome["folder"]))
    place = Path(outcome["folder"]) / "cells" / cell["id"]
    groups = json.loads((place / "metrics.json").read_text())["groups"]
    assert groups["bulk"]["goodput_mbit"] > 6 and groups["down"]["goodput_mbit"] > 15
    assert groups["pauses"]["goodput_mbit"] == pytest.approx(0.5, rel=0.2)
    # There is a queue of up to 60 ms on the way there, and another on the way back.
    assert groups["speech"]["delay_ms_p95"] > 40
    assert groups["ping"]["delay_ms_p95"] > groups["speech"]["delay_ms_p95"] + 10
    probes = pd.read_parquet(place / "probes.parquet").groupby("probe").size()
    assert (probes["speech"], probes["ping"]) == (300, 120)
    captured = (place / "right.pcap").read_bytes()
    assert captured[:4] == (0xA1B23C4D).to_bytes(4, sys.byteorder)
    # The data of six seconds at 10 Mbit/s one way and at 20 the other, 128 bytes of each packet.
    assert len(captured) > 10_000 * 100


def test_nginx_serves_curl_and_its_sockets_are_counted(out: Path) -> None:
    """Compared with flowgen's connections of the same size and loss."""
    flows = """
[[flow]]
name = "web"
kind = "http"
bytes = 300000
connections = 8
[[flow]]
name = "bulk"
bytes = 300000
connections = 8
"""
    link = ONE.partition("[[flow]]")[0].replace("duration_s = 1", "duration_s = 20")
    outcome, _ = run(out, link + "loss_percent = 2\n" + flows)
    assert outcome["ok"] == 1, outcome
    (cell,) = cells(Path(outcome["folder"]))
    found = pd.read_parquet(Path(outcome["folder"]) / "cells" / cell["id"] / "flows.parquet")
    assert found["error"].isna().all() and (found["bytes"] == 300_000).all()
    packets = found.groupby("group")[["retransmitted_packets", "sent_packets"]].sum()
    assert (packets["retransmitted_packets"] > 10).all(), packets
    assert (packets["sent_packets"] > 8 * 205).all(), packets


def test_trace_is_followed_from_start_of_traffic(out: Path) -> None:
    text = ONE.replace("duration_s = 1", "duration_s = 6").replace(
        "rate_mbit = 10", 'trace = "lte-drive"'
    )
    outcome, _ = run(out, text)
    assert outcome["ok"] == 1, outcome
    (cell,) = cells(Path(outcome["folder"]))
    place = Path(outcome["folder"]) / "cells" / cell["id"]
    queues = pd.read_parquet(place / "queues.parquet").set_index("t_s")
    times_ms = [int(ms) for ms in traces.text("lte-drive").split()]
    for t_s, offered in zip(queues.index, queues["offered_bytes"], strict=True):
        # Opportunities not yet taken by the relay: those of its last idle sleep.
        due = sum(ms <= 1000 * float(t_s) for ms in times_ms)
        early = sum(ms <= 1000 * (float(t_s) - 0.06) for ms in times_ms)
        assert early <= offered / 1504 <= due + 1
    sent = queues["sent_bytes"].iloc[-1] - queues["sent_bytes"].iloc[0]
    assert 0.9 < sent / queues["offered_bytes"].iloc[-1] <= 1.01
    assert queues["backlog_packets"].max() > 20 and queues["drops"].max() > 0


def test_mptcp_uses_both_links(out: Path) -> None:
    link = '[[link]]\nname = "two"\nrate_mbit = 5\nrtt_ms = 10\nqueue = "50 packets"\n'
    text = ONE.replace("duration_s = 1", "duration_s = 5") + 'transport = "mptcp"\n' + link
    outcome, _ = run(out, text)
    folder = Path(outcome["folder"]) / "cells" / "0000-cell.0"
    flows = pd.read_parquet(folder / "flows.parquet")
    assert flows["bytes"].sum() * 8 / 5 / 1e6 > 11
    samples = pd.read_parquet(folder / "samples.parquet")
    assert set(samples["link"].dropna()) == {"bottleneck", "two"}


def test_missing_kernel_module_is_reported_before_start(out: Path) -> None:
    _, answer = run(out, ONE.replace("cubic", "lola"), status=1)
    assert "has no module tcp_lola; take another --kernel" in answer.stderr
    assert not (out / "results").exists()


def test_boot_timeout_fails_the_cell_with_a_reason(out: Path) -> None:
    outcome, _ = run(out, ONE, "--timeout", "0.5", status=1)
    assert outcome["failed"] == 1
    (cell,) = cells(Path(outcome["folder"]))
    assert "timed out after 0.5 s while booting" in cell["error"]
    assert cell["status"] == "failed" and list(outcome["errors"]) == [cell["error"]]
    assert_nothing_left(out)


def several(engine: str) -> str:
    """Three cells; `here` has no virtual time, and would be over too soon."""
    return SEVERAL if engine == "vm" else PLAIN.replace("= 1\n", "= 4\n", 1) + SWEEP


def start_and_wait_for_a_cell(out: Path, engine: str) -> subprocess.Popen[str]:
    line = command(out, several(engine), *binaries(), *OPTIONS[engine])
    # Tests in the background of a shell would inherit ignoring Ctrl-C.
    line = ["env", "--default-signal=INT", *line]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(out.glob("results/*/cells/*/cell.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    return process


@pytest.mark.parametrize("engine", ["here", "vm"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_run_leaves_nothing_behind_and_resumes(
    out: Path, number: signal.Signals, engine: str
) -> None:
    process = start_and_wait_for_a_cell(out, engine)
    process.send_signal(number)
    process.wait(timeout=60)
    assert process.returncode == {2: 130, 15: 143, 9: -9}[number]
    deadline = time.monotonic() + 20
    while processes(out) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes(out) == []
    (folder,) = out.glob("results/scenario-*")
    if number != signal.SIGKILL:
        assert json.loads((folder / "manifest.json").read_text())["status"] == "broken-off"
    before = {
        cell["id"]: (folder / "cells" / cell["id"] / "cell.json").stat().st_mtime_ns
        for cell in cells(folder)
    }
    assert 1 <= len(before) < 3
    line = [*tcplab(), "run", "--resume", str(folder), "--json", *binaries()]
    answer = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr
    assert done(json.loads(answer.stdout)) == 3
    after = {
        cell["id"]: (folder / "cells" / cell["id"] / "cell.json").stat().st_mtime_ns
        for cell in cells(folder)
    }
    assert len(after) == 3 and before.items() <= after.items()
    assert json.loads((folder / "manifest.json").read_text())["status"] == "complete"
    assert_nothing_left(out)


@pytest.mark.parametrize("engine", ["here", "vm"])
def test_full_disk_gives_one_error_and_keeps_cells(out: Path, engine: str) -> None:
    line = command(out, several(engine), *binaries(), *OPTIONS[engine])
    disk = out / "results"
    disk.mkdir()
    script = (
        f'mount -t tmpfs -o size=220m tmpfs {disk}; "$@" & child=$!; '
        f"until ls {disk}/*/cells/*/cell.json >/dev/null 2>&1; do sleep 0.1; done; "
        f"cat /dev/zero >{disk}/full 2>/dev/null; wait $child; status=$?; "
        f"ls -d {disk}/*/cells/* {disk}/*/work >&2; exit $status"
    )
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *line],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.returncode == 1
    assert "No space left on device" in answer.stderr
    assert "Traceback" not in answer.stderr
    listed = [line for line in answer.stderr.splitlines() if line.startswith(str(disk))]
    assert any("/cells/" in line for line in listed)
    assert not any(line.endswith("/work") for line in listed)


def test_too_little_room_is_refused_before_anything_starts(out: Path) -> None:
    disk = out / "results"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=10m tmpfs {disk}; "$@"; status=$?; ls {disk}; exit $status'
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command(out, ONE, *binaries())],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert answer.returncode == 1 and answer.stdout == ""
    assert "10 MB are free, 200 MB are needed" in answer.stderr


@pytest.mark.parametrize("engine", ["here", "vm"])
def test_two_workers_give_the_cells_of_one_process(out: Path, engine: str) -> None:
    line = ["--scheduler", "local", "--jobs", "2", *OPTIONS[engine]]
    outcome, _ = run(out, several(engine), *line)
    assert done(outcome) == 3
    folder = Path(outcome["folder"])
    assert {cell["labels"]["cc"] for cell in cells(folder)} == {"reno", "cubic", "bbr"}
    assert (folder / "summary.json").exists()
    assert_nothing_left(out)


def test_engine_here_runs_or_reports_missing_requirements(out: Path) -> None:
    outcome, _ = run(out, PLAIN, "--engine", "here")
    (cell,) = cells(Path(outcome["folder"]))
    assert cell["kernel"] == os.uname().release and cell["engine"] == "here"
    flows = pd.read_parquet(Path(outcome["folder"]) / "cells" / cell["id"] / "flows.parquet")
    assert 1 < flows["bytes"].sum() * 8 / 1e6 < 10
    _, answer = run(out, PLAIN.replace("cubic", "nothing"), "--engine", "here", status=1)
    assert "lacks: congestion control nothing; use --engine vm" in answer.stderr
    assert_nothing_left(out)
