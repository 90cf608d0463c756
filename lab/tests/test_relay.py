"""Cells on a kernel without netem: pathrelay's arguments, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcplab import algorithms, topology
from tcplab.engine import here, relay, script
from tcplab.scenario.model import Cell, Change, Flow, Link

LINK = Link(rate_mbit=10, rtt_ms=20, queue="2 bdp", loss_percent=2)
NEAR, FAR = Flow(name="a", cc="cubic"), Flow(name="b", cc="cubic", extra_rtt_ms=80)


def cell(link: Link = LINK, changes: tuple[Change, ...] = ()) -> Cell:
    return Cell(10, 100, 1, (link,), (NEAR, FAR), changes=changes, delays=topology.RELAY)


def test_direct_path_is_one_relay_between_hosts() -> None:
    link = Link(path="direct", rtt_ms=40, loss_percent=1)
    direct = Cell(10, 100, 1, (link,), (NEAR,), delays=topology.RELAY)
    (line,) = topology.relay_links(direct, 5)
    assert line == "near=left/l0,far=right/r0x0,delay_ms=40,loss=0.01,seed=5"
    assert not topology.ip_lines(direct)[""]
    assert topology.queue_places(direct) == []
    assert topology.queue_places(replace(direct, delays="netem"))
    # As much as netem's default limit lets be under way, whatever the round trip.
    assert relay.memory_mb(direct) == relay.memory_mb(
        replace(direct, links=(replace(link, rtt_ms=400),))
    )


def test_each_rtt_gets_a_relay_instead_of_veths() -> None:
    assert topology.relay_links(cell(), 5) == [
        "near=r2/f0x0,far=right/r0x0,delay_ms=20,loss=0.02,seed=5",
        "near=r2/f0x1,far=right/r0x1,delay_ms=100,loss=0.02,seed=6",
    ]
    outer = topology.ip_lines(cell())[""]
    assert not [line for line in outer if "f0x" in line]
    assert [
        line for line in topology.ip_lines(replace(cell(), delays="netem"))[""] if "f0x" in line
    ]


def test_relay_replaces_netem_but_not_rate_or_queue() -> None:
    lines = topology.tc_lines(cell())
    assert lines["r1"][0].split()[6:8] == ["1:", "tbf"]
    assert not [line for found in lines.values() for line in found if "netem" in line]
    assert ("r2", "f0x0", "root") not in topology.removed(cell())


@pytest.mark.parametrize(
    ("link", "told"),
    [
        (replace(LINK, jitter_ms=1), "jitter_ms"),
        (replace(LINK, loss_burst_packets=3), None),
        (replace(LINK, path="direct"), None),
        (replace(LINK, reorder_percent=1), "reorder_percent"),
        (LINK, None),
        (replace(LINK, receiver_gro_us=100), "losses with receiver_gro_us"),
    ],
)
def test_unsupported_relay_settings_are_named(link: Link, told: str | None) -> None:
    assert topology.relay_obstacle(cell(link)) == told


def test_gro_joins_packets_before_the_relays_delay() -> None:
    joining = replace(LINK, loss_percent=0, receiver_gro_us=100)
    assert topology.relay_obstacle(cell(joining)) is None
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/x"))
    text = script.text(cell(joining), programs)
    assert 'in_ns r1 "$flowgen" offload b0 --tso off' in text
    assert 'in_ns r2 "$flowgen" offload n0 --gro on' in text
    assert "echo 100000 >/sys/class/net/n0/gro_flush_timeout" in text
    second = script.text(cell(replace(joining, second_rate_mbit=5)), programs)
    assert 'in_ns r3 "$flowgen" offload d0 --gro on' in second


def test_missing_algorithms_get_stand_ins_only_if_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(here, "_available", lambda: ["reno", "cubic"])
    names = ("cubic", "highspeed", "tp_lola", "none", "default")
    flows = tuple(Flow(name=name, cc=name) for name in names)
    asked = replace(cell(), flows=flows, stand_ins=True)
    there = ["cubic", "tp_hstcp", "tp_lola", "none", "default"]
    assert [flow.cc for flow in here.fitted(asked).flows] == there
    assert here.fitted(replace(asked, stand_ins=False)).flows == flows


def test_every_stand_in_is_there() -> None:
    catalog = Path(__file__).parents[2] / "crates/kernel/src/cc/catalog.rs"
    text = catalog.read_text()
    for name in algorithms.IN_KERNELS:
        own = algorithms.stand_in(name)
        assert own is not None and f'"{algorithms.without_prefix(own)}"' in text, name


def test_relay_applies_bursts_and_changes_once_traffic_starts() -> None:
    loss = Change(link="bottleneck", at_s=60, loss_percent=0, queue="1 bdp")
    farther = Change(link="bottleneck", at_s=2.5, rtt_ms=50)
    changing = cell(replace(LINK, loss_burst_packets=3), (loss, farther))
    assert topology.relay_obstacle(changing) is None
    first, second = topology.relay_links(changing, 5)
    assert first == (
        "near=r2/f0x0,far=right/r0x0,delay_ms=20,loss=0.02,burst=3,seed=5"
        ",change=2.5:delay_ms=50:loss=0.02:burst=3,change=60:delay_ms=50:loss=0:burst=3"
    )
    assert "change=2.5:delay_ms=130:" in second
    # The queue stays the kernel's, and is changed there.
    ((at_s, namespace, line),) = topology.change_lines(changing)
    assert (at_s, namespace) == (60, "r1") and "limit" in line
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/tmp/x"))
    assert '--signal "$relay"' in script.files(changing, 5, programs)[script.SCRIPT]
    assert '--signal "$relay"' not in script.files(cell(), 5, programs)[script.SCRIPT]


def test_relay_reads_destination_delay_and_loss_from_file() -> None:
    flow = Flow(
        name="many",
        cc="cubic",
        destinations=4,
        prefixes=2,
        destination_rtt_ms=(20.0, 60.0),
        destination_rate_mbit=(8.0,),
        destination_loss_percent=(0.0, 1.0),
    )
    link = Link(queue="1 bdp")
    many = Cell(10, 100, 1, (link,), (flow,), delays=topology.RELAY)
    assert topology.relay_obstacle(many) is None
    (line,) = topology.relay_links(many, 5)
    assert line == "near=r2/f0x0,far=right/r0x0,delay_ms=0,seed=5,destinations=destinations"
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/tmp/x"))
    files = script.files(many, 5, programs)
    assert files["destinations"].splitlines() == [
        "198.18.0.1 20 0",
        "198.18.0.2 60 0.01",
        "198.18.1.3 20 0",
        "198.18.1.4 60 0.01",
    ]
    # Rates and queues stay the kernel's; the relay's devices have none.
    assert "htb" in files["tc-r1"]
    assert "f0x0" not in "".join(text for name, text in files.items() if name.startswith("tc-"))
    assert not [where for where in topology.removed(many) if where[1] == "f0x0"]


def test_jitter_that_changes_is_netems() -> None:
    change = Change(link="bottleneck", at_s=1, jitter_ms=5)
    assert topology.relay_obstacle(cell(changes=(change,))) == "changes of jitter_ms"


def test_relay_memory_fits_the_longest_scheduled_rtt() -> None:
    fast = cell(replace(LINK, rate_mbit=1000))
    farther = Change(link="bottleneck", at_s=1, rtt_ms=400)
    assert relay.memory_mb(replace(fast, changes=(farther,))) > 3 * relay.memory_mb(fast)


def test_script_starts_relay_before_addressing_and_stops_it() -> None:
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/tmp/x"))
    text = script.files(cell(), 5, programs)[script.SCRIPT]
    start = text.index("/bin/pathrelay --memory-mb=16 --link=near=r2/f0x0")
    assert text.index("ip-outer") < start < text.index("ip-right")
    assert text.index("flowgen play") < text.index("kill $relay")


def test_cells_above_80_percent_relay_capacity_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pathrelay").touch()
    monkeypatch.setattr(relay, "saturation_mbit", lambda _, segments=1: 12.0 * segments)
    (told,) = relay.refused([cell()], str(tmp_path / "flowgen"))
    assert "carries 12 Mbit/s" in told
    assert relay.refused([cell(replace(LINK, rate_mbit=9))], str(tmp_path / "flowgen")) == []
    joined = replace(LINK, rate_mbit=100, loss_percent=0, receiver_gro_us=100)
    assert relay.refused([cell(joined)], str(tmp_path / "flowgen")) == []
    (told,) = relay.refused([cell(replace(joined, rate_mbit=1000))], str(tmp_path / "flowgen"))
    assert "carries 540 Mbit/s of joined packets" in told
    (told,) = relay.refused([cell()], str(tmp_path / "elsewhere" / "flowgen"))
    assert "cargo build" in told


def test_only_a_kernel_without_netem_relays(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(cell(), delays="netem")
    for has, delays in ((True, "netem"), (False, topology.RELAY)):
        monkeypatch.setattr(here, "_qdisc", lambda kind, has=has: has or kind != "netem")
        assert here.fitted(plain).delays == delays
    no_delay = replace(plain, links=(Link(rate_mbit=10, rtt_ms=0),), flows=(NEAR,))
    assert here.fitted(no_delay).delays == "netem"


def test_fast_cells_give_relay_and_ends_one_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(here, "_qdisc", lambda kind: kind != "netem")
    fast = replace(cell(replace(LINK, rate_mbit=1000)), delays="netem")
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/x"))
    for processors, own in (({0, 2}, 2), ({1}, None)):
        monkeypatch.setattr(here.os, "sched_getaffinity", lambda _, found=processors: found)
        ran = here.fitted(fast)
        assert ran.relay_processor == own
        text = script.text(ran, programs)
        parts = ("--processor=2", "taskset -c 2 ", "echo 1 >/sys/class/net/m0/queues/rx-0/rps_cpus")
        assert [part in text for part in parts] == [own == 2] * 3
        assert here.fitted(replace(cell(), delays="netem")).relay_processor is None


def report(late_us: float, full: int) -> dict[str, object]:
    line = {"late_us": {"p99": late_us}, "full": full}
    return {"there": line, "back": {"late_us": {"p99": 0.0}, "full": 0}}


def test_late_packets_or_full_relay_fail_the_verdict() -> None:
    good = relay.verdict(cell(), [report(150, 0)])
    assert all(entry["ok"] for entry in good.values())
    fast = cell(replace(LINK, rate_mbit=100))
    assert not relay.verdict(fast, [report(250, 0)])["relay_late_us_p99"]["ok"]
    assert not relay.verdict(cell(), [report(1, 3)])["relay_full"]["ok"]
    far = cell(replace(LINK, rtt_ms=100))
    assert relay.verdict(far, [report(900, 0)])["relay_late_us_p99"]["ok"]


def test_lateness_below_half_a_packets_time_changes_nothing() -> None:
    # 1.2 ms at 10 Mbit/s.
    assert relay.verdict(cell(), [report(590, 0)])["relay_late_us_p99"]["ok"]
    assert not relay.verdict(cell(), [report(620, 0)])["relay_late_us_p99"]["ok"]
    slow = replace(NEAR, destinations=2, destination_rtt_ms=(20, 20), destination_rate_mbit=(2, 2))
    many = replace(cell(), flows=(slow,))
    assert relay.verdict(many, [report(2900, 0)])["relay_late_us_p99"]["ok"]
    assert not relay.verdict(many, [report(3100, 0)])["relay_late_us_p99"]["ok"]


def test_disallowed_default_algorithm_reports_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tcp_available_congestion_control").write_text("reno bbr cubic\n")
    allowed = tmp_path / "tcp_allowed_congestion_control"
    monkeypatch.setattr(here, "_TCP", tmp_path)
    wants = replace(cell(), sysctl={"net.ipv4.tcp_congestion_control": "cubic"})
    allowed.write_text("reno bbr\n")
    (told,) = here._no_defaults([wants, wants, cell()])
    assert "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'" in told
    allowed.write_text("reno bbr cubic\n")
    assert here._no_defaults([wants]) == []
