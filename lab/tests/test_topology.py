"""From a cell to commands, plan and script, without running them."""

from __future__ import annotations

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tcplab import topology
from tcplab.engine import calibration, need, script
from tcplab.results import writer
from tcplab.scenario.model import Cell, Change, Flow, Link, Tuner
from tcplab.traffic.plan import pareto_sizes, plan

LINK = Link(rate_mbit=10, rtt_ms=20, queue="2 bdp")
FLOW = Flow(name="a", cc="cubic")


def cell(link: Link = LINK, *flows: Flow, changes: tuple[Change, ...] = ()) -> Cell:
    return Cell(10, 100, 1, (link,), flows or (FLOW,), changes=changes)


def test_bottleneck_has_rate_and_queue_with_delay_behind() -> None:
    assert topology.tc_lines(cell()) == {
        "r1": [
            "qdisc add dev b0 root handle 1: tbf rate 10000000bit burst 3028 limit 50000",
            "qdisc add dev b0 parent 1:1 handle 10: pfifo limit 33",
        ],
        "r2": ["qdisc add dev f0x0 root handle 30: netem limit 100000 delay 20ms"],
    }


def test_bottleneck_can_be_at_the_senders_egress() -> None:
    link = Link(rate_mbit=10, rtt_ms=20, queue="2 bdp", place="host", qdisc="prio")
    assert topology.tc_lines(cell(link))["left"] == [
        "qdisc add dev l0 root handle 1: tbf rate 10000000bit burst 3028 limit 50000",
        "qdisc add dev l0 parent 1:1 handle 10: prio",
        *(f"qdisc add dev l0 parent 10:{band} pfifo limit 33" for band in (1, 2, 3)),
    ]
    queue = plan(cell(link), 1)["queues"][0]
    assert (queue["netns"], queue["device"]) == ("/run/netns/left", "l0")


def test_a_policer_drops_where_the_router_takes_in() -> None:
    link = Link(rate_mbit=50, rtt_ms=20, police_mbit=5, police_burst="20 ms")
    assert topology.tc_lines(cell(link))["r1"][2:] == [
        "qdisc add dev m0 clsact",
        "filter add dev m0 ingress pref 2 matchall action police rate 5000000bit burst 12500 "
        "conform-exceed drop",
    ]
    assert link.expected_mbit() == 5
    assert {"act_police", "cls_matchall", "sch_ingress"} <= set(need.modules(cell(link)))


def test_each_rtt_has_its_own_branch() -> None:
    far = Flow(name="b", cc="cubic", extra_rtt_ms=80)
    lines = topology.tc_lines(cell(LINK, FLOW, far))["r2"]
    assert [line.partition("delay ")[2] for line in lines] == ["20ms", "100ms"]
    to = [group["to"] for group in plan(cell(LINK, FLOW, far), 1)["flows"]]
    assert to == ["10.1.10.2:5201", "10.1.11.2:5201"]


@pytest.mark.parametrize(
    ("qdisc", "expected"),
    [
        ("codel", "codel limit 33 noecn"),
        ("fq_codel", "fq_codel limit 33 noecn"),
        ("pie", "pie limit 33 noecn"),
        ("sfq", "sfq limit 33"),
        ("fq", "fq limit 33 flow_limit 33"),
        (
            "red",
            "red limit 50000 min 8333 max 25000 avpkt 1000 burst 14 probability 0.1 "
            "bandwidth 10000000bit",
        ),
    ],
)
def test_qdiscs_have_the_queue_as_their_limit(qdisc: str, expected: str) -> None:
    link = Link(rate_mbit=10, rtt_ms=20, queue="2 bdp", qdisc=qdisc)
    assert topology.bottleneck_lines(link, "b0")[1] == (
        f"qdisc add dev b0 parent 1:1 handle 10: {expected}"
    )


def test_cake_shapes_traffic_and_red_sfq_stacks_qdiscs() -> None:
    cake = Link(rate_mbit=10, rtt_ms=20, qdisc="cake")
    (line,) = topology.bottleneck_lines(cake, "b0")
    assert "root handle 10: cake bandwidth 10000000bit" in line
    both = topology.bottleneck_lines(Link(rate_mbit=10, rtt_ms=20, qdisc="red_sfq"), "b0")
    assert [line.split()[7] for line in both] == ["tbf", "red", "sfq"] or "sfq" in both[2]


def test_a_second_bottleneck_has_a_router_behind_it() -> None:
    link = replace(LINK, second_rate_mbit=5.0, second_queue="0.5 bdp", second_qdisc="codel")
    lines = topology.tc_lines(cell(link))
    assert lines["r2"] == [
        "qdisc add dev c0 root handle 1: tbf rate 5000000bit burst 3028 limit 30280",
        "qdisc add dev c0 parent 1:1 handle 10: codel limit 4 noecn",
    ]
    assert lines["r3"] == ["qdisc add dev f0x0 root handle 30: netem limit 100000 delay 20ms"]
    wires = topology.ip_lines(cell(link))
    assert "route add 10.1.0.0/16 via 10.1.3.2" in wires["r2"]
    assert "route add 10.1.1.0/24 via 10.1.3.1" in wires["r3"]
    assert "r3" not in topology.ip_lines(cell())
    assert link.expected_mbit() == 5
    assert [queue["link"] for queue in plan(cell(link), 1)["queues"]] == [
        "bottleneck",
        "bottleneck/second",
    ]


def test_return_path_has_own_rate_losses_and_slots() -> None:
    link = replace(LINK, back_rate_mbit=1.0, back_queue="20 packets", back_qdisc="cake",
                   back_qdisc_options="ack-filter", back_loss_percent=1.0,
                   back_slot_ms=5.0)  # fmt: skip
    lines = topology.tc_lines(cell(link))
    assert lines["r1"][2:] == [
        "qdisc add dev m0 root handle 30: netem limit 100000 loss random 1% slot 5ms"
    ]
    assert lines["r2"][0] == (
        "qdisc add dev n0 root handle 10: cake bandwidth 1000000bit besteffort memlimit 30280 "
        "ack-filter"
    )
    assert {"sch_cake", "sch_netem"} <= set(need.modules(cell(link)))
    made = {(ns, dev) for ns, dev, _ in topology.removed(cell(link))}
    assert made == {("r1", "b0"), ("r1", "m0"), ("r2", "n0"), ("r2", "f0x0")}


def test_part_of_the_delay_may_precede_the_bottleneck() -> None:
    link = replace(LINK, before_share=0.75, back_loss_percent=1.0)
    lines = topology.tc_lines(cell(link))
    late = "delay 15ms loss random 1%"
    assert lines["r1"][2:] == [f"qdisc add dev m0 root handle 30: netem limit 100000 {late}"]
    assert lines["r2"] == ["qdisc add dev f0x0 root handle 30: netem limit 100000 delay 5ms"]
    everything = cell(replace(LINK, before_share=1.0))
    assert "r2" not in {ns for ns, found in topology.tc_lines(everything).items() if found}


def test_a_relay_delays_answers_beside_the_senders_link() -> None:
    one = replace(cell(replace(LINK, before_share=0.75)), delays=topology.RELAY)
    assert topology.relay_links(one, 7) == [
        "near=r2/f0x0,far=right/r0x0,delay_ms=5,seed=7",
        "near=r1/z0,far=left/a0,delay_ms=15",
    ]
    wires = topology.ip_lines(one)
    assert "route add 10.1.1.1 dev z0" in wires["r1"]
    assert {"link set z0 up", "link set a0 up"} <= {*wires["r1"], *wires["left"]}
    later = replace(one, changes=(Change(at_s=1, link="bottleneck", rtt_ms=30),))
    assert topology.relay_obstacle(later) == "changes of rtt_ms with before_share"


def test_receiver_gro_disables_tso_on_its_peer() -> None:
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/x"))
    text = script.text(cell(replace(LINK, receiver_gro_us=2000)), programs)
    assert 'in_ns r2 "$flowgen" offload f0x0 --tso off' in text
    assert 'in_ns right "$flowgen" offload r0x0 --gro on' in text
    assert "echo 2000000 >/sys/class/net/r0x0/gro_flush_timeout" in text
    assert "offload" not in script.text(cell(), programs)


def test_a_sender_may_hand_over_whole_segments() -> None:
    single = "link set l0 gso_max_segs 1"
    assert single in topology.ip_lines(cell())["left"]
    whole = topology.ip_lines(cell(replace(LINK, sender_gso=True)))
    assert single not in whole["left"]
    assert "link set r0x0 gso_max_segs 1" in whole["right"]
    # Also at a rate whose bucket has room for a whole segment, the shaper takes it apart.
    fast = cell(replace(LINK, sender_gso=True, rate_mbit=1000))
    assert "burst 125000" in topology.tc_lines(fast)["r1"][0]
    assert topology.tc_lines(fast)["r1"][0].endswith("peakrate 400gbit mtu 1600")


def test_ipv6_adds_addresses_and_routes_to_ipv4() -> None:
    one = cell(LINK, FLOW, Flow(name="b", ip=6))
    wires = topology.ip_lines(one)
    assert "address add fd00:1:1::1/64 dev l0 nodad" in wires["left"]
    assert "route add fd00:1::/32 via fd00:1:1::2" in wires["left"]
    assert "route add fd00:1:1::/64 via fd00:1:a::1" in wires["right"]
    groups = plan(one, 1)["flows"]
    assert [group["to"] for group in groups] == ["10.1.10.2:5201", "[fd00:1:a::2]:5201"]
    assert not any("fd00" in line for lines in topology.ip_lines(cell()).values() for line in lines)


def test_options_of_a_qdisc_follow_its_own() -> None:
    link = replace(LINK, qdisc="fq_pie", qdisc_options="target 5ms")
    assert topology.bottleneck_lines(link, "b0")[1].endswith("fq_pie limit 33 noecn target 5ms")
    dualpi2 = topology.bottleneck_lines(replace(LINK, qdisc="dualpi2"), "b0")[1]
    assert dualpi2.endswith("handle 10: dualpi2")
    assert "sch_dualpi2" in need.modules(cell(replace(LINK, qdisc="dualpi2")))


def test_router_sets_ect1_before_policer_and_queue() -> None:
    link = replace(LINK, ect1=True, police_mbit=5)
    lines = topology.tc_lines(cell(link))["r1"]
    clsact, marking, policer = (line for line in lines if " m0 " in line)
    assert clsact == "qdisc add dev m0 clsact"
    # ECT(0) is 2, ECT(1) is 1; DSCP, Not-ECT and CE stay.
    assert "pref 1 protocol ip u32 match ip tos 2 3 " in marking
    assert "munge ip tos set 1 retain 3 pipe action csum ip4h continue" in marking
    assert "pref 2 matchall action police" in policer
    assert ("r1", "m0", "clsact") in topology.removed(cell(replace(LINK, ect1=True)))
    modules = need.modules(cell(replace(LINK, ect1=True)))
    assert {"sch_ingress", "cls_u32", "act_pedit", "act_csum"} <= set(modules)
    assert "act_pedit" not in need.modules(cell(LINK))


def test_a_queue_and_bursts_can_change_under_way() -> None:
    changes = (
        Change(at_s=2, link="bottleneck", queue="0.2 bdp"),
        Change(at_s=4, link="bottleneck", loss_percent=1, loss_burst_packets=5),
    )
    lines = topology.change_lines(cell(LINK, changes=changes))
    assert lines[0] == (2, "r1", "qdisc change dev b0 parent 1:1 handle 10: pfifo limit 3")
    assert "loss gemodel" in lines[1][2] and len(lines) == 2


DIRECT = Link(path="direct", rtt_ms=10, loss_percent=5)


def test_direct_path_is_veth_with_netem_at_sender() -> None:
    one = cell(DIRECT)
    assert topology.tc_lines(one) == {
        "r1": [],
        "r2": [],
        "left": ["qdisc add dev l0 root handle 30: netem delay 10ms loss random 5%"],
    }
    lines = topology.ip_lines(one)
    assert lines[""] == ["link add l0 netns left type veth peer name r0x0 netns right"]
    assert not any("gso_max_segs" in line for found in lines.values() for line in found)
    (queue,) = plan(one, 1)["queues"]
    assert (queue["netns"], queue["device"], queue["handle"]) == ("/run/netns/left", "l0", 0x30)
    assert plan(one, 1)["flows"][0]["to"] == "10.1.10.2:5201"


def test_a_direct_path_without_impairment_has_no_qdisc() -> None:
    one = cell(Link(path="direct"))
    assert not any(topology.tc_lines(one).values())
    assert plan(one, 1)["queues"] == []
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/x"))
    assert "qdisc del" not in script.text(one, programs)


def test_a_direct_paths_changes_are_at_the_sender() -> None:
    changes = (Change(at_s=4, link="bottleneck", rtt_ms=40),)
    ((_, namespace, line),) = topology.change_lines(cell(DIRECT, FLOW, changes=changes))
    assert (namespace, line.split()[:4]) == ("left", ["qdisc", "replace", "dev", "l0"])
    assert line.endswith("netem delay 40ms loss random 5%")


def test_bursts_have_the_asked_mean_and_share() -> None:
    arguments = topology.netem_arguments(Link(loss_percent=2, loss_burst_packets=4), 0)
    enter, leave = (float(word.rstrip("%")) / 100 for word in arguments.split()[2:4])
    assert 1 / leave == pytest.approx(4)
    assert enter / (enter + leave) == pytest.approx(0.02)


def test_changes_touch_only_what_they_change() -> None:
    changes = (
        Change(at_s=2, link="bottleneck", rate_mbit=5),
        Change(at_s=4, link="bottleneck", rtt_ms=40),
    )
    lines = topology.change_lines(cell(LINK, FLOW, changes=changes))
    assert [(at_s, ns, line.split()[1]) for at_s, ns, line in lines] == [
        (2, "r1", "change"),
        (4, "r2", "replace"),
    ]
    assert "rate 5000000bit" in lines[0][2] and "delay 40ms" in lines[1][2]


def test_link_can_fail_midway_with_any_loss_model() -> None:
    dead = Change(3, "bottleneck", loss_percent=100.0)
    for burst in (1, 4):
        link = replace(LINK, loss_percent=1.0, loss_burst_packets=burst)
        (line,) = topology.change_lines(cell(link, changes=(dead,)))
        assert line[:2] == (3, "r2") and line[2].endswith("delay 20ms loss random 100%")


def test_modules_are_those_of_algorithms_and_qdiscs() -> None:
    link = Link(rate_mbit=10, rtt_ms=20, qdisc="red_sfq")
    flows = (Flow(name="a", cc="bic"), Flow(name="b", cc="none"), Flow(name="c", cc="cubic"))
    found = need.modules(cell(link, *flows))
    assert found == ("tcp_bic", "sch_netem", "sch_red", "sch_sfq", "sch_tbf", "veth")


def two_links(transport: str, cc: str = "tp_olia") -> Cell:
    links = (replace(LINK, name="one"), replace(LINK, name="two"))
    return Cell(10, 100, 1, links, (Flow(name="a", cc=cc, transport=transport),))


def test_mpquic_opens_mptcps_paths_without_kernel_endpoints() -> None:
    quic = plan(two_links("mpquic"), 1)
    (group,) = quic["flows"]
    assert (group["transport"], group["cc"]) == ("mpquic", "tp_olia")
    assert group["to"].startswith("10.1.10.2:")
    assert group["paths"] == [{"local": "10.2.1.1", "remote": "10.2.10.2"}]
    assert (quic["serve"]["quic_paths"], quic["serve"]["mptcp"]) == (2, False)
    assert quic["links"] == {"10.1.1.1": "one", "10.2.1.1": "two"}
    assert topology.mptcp_lines(two_links("mpquic")) == {}

    mptcp = plan(two_links("mptcp"), 1)
    assert mptcp["flows"][0]["paths"] == []
    assert (mptcp["serve"]["quic_paths"], mptcp["serve"]["mptcp"]) == (None, True)
    assert (
        "endpoint add 10.2.10.2 dev r1x0 signal"
        in topology.mptcp_lines(two_links("mptcp"))["right"]
    )


def test_down_quic_flow_has_its_client_on_right() -> None:
    down = plan(cell(LINK, Flow(name="a", transport="quic", direction="down")), 1)
    assert down["flows"][0]["netns"].endswith("/right")
    assert down["flows"][0]["to"].startswith("10.1.1.1:")
    assert (down["serve"]["quic_paths"], down["serve_too"][0]["quic_paths"]) == (None, 1)


def test_quics_algorithms_are_not_asked_of_the_kernel() -> None:
    assert need.ours(two_links("mptcp")) == ["olia"] and need.needs_tcpilot(two_links("mptcp"))
    assert need.ours(two_links("mpquic")) == [] and not need.needs_tcpilot(two_links("mpquic"))
    assert "tcp_bbr3" not in need.modules(two_links("mpquic", "bbr3"))


def test_plan_omits_absent_flows_and_default_algorithms() -> None:
    flows = (Flow(name="a", cc="none"), Flow(name="b"))
    (group,) = plan(cell(LINK, *flows), 1)["flows"]
    assert group["name"] == "b" and group["cc"] is None


def test_pareto_sizes_are_seeded_capped_and_correctly_distributed() -> None:
    flow = Flow(
        name="p",
        kind="pareto",
        connections=20_000,
        pareto_alpha=0.8,
        pareto_scale_bytes=1_000,
        pareto_most_bytes=10**6,
    )
    sizes = pareto_sizes(flow, random.Random(7))
    assert sizes == pareto_sizes(flow, random.Random(7))
    assert min(sizes) >= 1_000 and max(sizes) == 10**6
    # P(size > 10 scale) = 10^-0.8
    assert sum(size > 10_000 for size in sizes) / len(sizes) == pytest.approx(0.1585, abs=0.01)


def test_bounded_pareto_sizes_have_the_expected_mean() -> None:
    flow = Flow(
        name="p",
        kind="pareto",
        connections=20_000,
        pareto_alpha=0.8,
        pareto_scale_bytes=1_000,
        pareto_most_bytes=50_000,
        pareto_bounded=True,
    )
    sizes = pareto_sizes(flow, random.Random(7))
    assert min(sizes) >= 1_000 and max(sizes) < 50_000
    # 4 (50^0.2 - 1) / (1 - 50^-0.8) scales
    assert sum(sizes) / len(sizes) == pytest.approx(4_970, rel=0.03)


def test_a_tuner_sees_the_senders_default_algorithm() -> None:
    """Else it would take the host's for the default: bbr, say, where the sender has cubic."""
    programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/tmp/x"))
    sysctl = {"net.ipv4.tcp_congestion_control": "reno"}
    line = "\nsysctl -qw net.ipv4.tcp_congestion_control=reno"
    tuned = replace(cell(), tuner=Tuner(name="tcpilot"), sysctl=sysctl)
    text = script.text(tuned, programs)
    assert line in text and text.index(line) < text.index("step tuner")
    assert line not in script.text(replace(tuned, tuner=Tuner()), programs)


def test_script_is_shell_for_every_tuner(tmp_path: Path) -> None:
    for name in ("none", "tcpilot", "bpftune"):
        one = Cell(10, 100, 1, (LINK,), (FLOW,), tuner=Tuner(name=name))
        programs = script.Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), tmp_path)
        text = script.files(one, 1, programs)[script.SCRIPT]
        answer = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True)
        assert (answer.returncode, answer.stderr) == (0, "")


def test_object_next_to_binary_overrides_embedded_one(tmp_path: Path) -> None:
    programs = script.Programs(Path("/bin/flowgen"), tmp_path / "tcpilot", tmp_path)
    mine = tmp_path / "mine.bpf.o"
    mine.touch()
    flows = (Flow(name="a", cc="tp_mine"), Flow(name="b", cc="tp_lola"))
    text = script.text(cell(LINK, *flows), programs)
    assert f"cc load --foreground lola {mine} >" in text


def test_a_link_may_share_another_links_bottleneck() -> None:
    links = (replace(LINK, name="one"), Link(name="two", shares="one", rtt_ms=40))
    both = Cell(10, 100, 1, links, (Flow(name="a", transport="mptcp"),))
    lines = topology.ip_lines(both)
    assert not any("b1" in line or "n1" in line for found in lines.values() for line in found)
    assert "route add 10.2.0.0/16 via 10.1.2.2" in lines["r1"]
    assert "route add 10.2.1.0/24 via 10.1.2.1" in lines["r2"]
    assert topology.sender_addresses(both) == {"10.1.1.1": "one", "10.2.1.1": "two"}
    assert [name for name, *_ in topology.queue_places(both)] == ["one"]
    shapers = [line for line in topology.tc_lines(both)["r1"] if "tbf" in line]
    assert len(shapers) == 1 and "dev b0" in shapers[0]
    delays = [line for line in topology.tc_lines(both)["r2"] if "netem" in line]
    assert ["delay 20ms" in delays[0], "delay 40ms" in delays[1]] == [True, True]
    assert topology.removed(both).count(("r1", "b0", "root")) == 1
    rates = [target.link.expected_mbit() for target in calibration.targets(both)]
    assert rates == [LINK.rate_mbit] * 2
    assert writer.ideal(both)["groups"]["a"]["links"] == ["one"]
