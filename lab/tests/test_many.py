"""Many destinations: from the scenario to commands."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from synthetic import flow_row

from tcplab import topology
from tcplab.engine import calibration, need
from tcplab.metrics import delays
from tcplab.metrics.utility import geometric_mean, of_destinations, utilities_mbit
from tcplab.results import writer
from tcplab.results.read import Group, Ideal, OwnPath
from tcplab.scenario import ScenarioError, load
from tcplab.scenario.destinations import destinations
from tcplab.scenario.model import Cell, Change, Flow, Link, cell_from_json
from tcplab.scenario.spread import values, wholes
from tcplab.traffic.plan import plan

MANY = Flow(name="cold", destinations=300, prefixes=30, sizes_bytes="100000 to 1000000")
LINK = Link(rate_mbit=20, rtt_ms=40, queue="1 bdp")


def cell(flow: Flow = MANY, link: Link = LINK, changes: tuple[Change, ...] = ()) -> Cell:
    return Cell(60, 100, 1, (link,), (flow,), changes=changes)


def test_prefixes_share_unique_addresses_evenly() -> None:
    found = destinations(cell())
    assert len({one.address for one in found}) == 300
    by_prefix = pd.Series([one.address.rpartition(".")[0] for one in found]).value_counts()
    assert set(by_prefix) == {10} and len(by_prefix) == 30
    assert found[0].address == "198.18.0.1" and found[299].address == "198.18.29.50"
    six = destinations(cell(replace(MANY, ip=6)))
    assert (six[0].address, six[299].address) == ("2001:db8:1::1", "2001:db8:1e::32")


def test_flows_have_prefixes_of_their_own() -> None:
    one = Cell(60, 100, 1, (LINK,), (MANY, replace(MANY, name="other", destinations=30)))
    found = destinations(one)
    assert len({o.address for o in found}) == 330
    assert {o.prefix for o in found if o.flow == "other"} == set(range(30, 60))


def test_direct_path_needs_no_class_per_private_destination() -> None:
    flow = replace(MANY, destinations=100_000, prefixes=400, private=True)
    one = cell(flow, Link(path="direct", rtt_ms=10))
    found = destinations(one)
    assert (found[0].address, found[-1].address) == ("10.64.0.1", "10.65.143.250")
    assert len({o.address for o in found}) == 100_000
    lines = topology.ip_lines(one)
    assert "route add 10.64.0.0/15 via 10.1.10.2" in lines["left"]
    assert "route add local 10.64.0.0/15 dev lo" in lines["right"]
    netem = "qdisc add dev l0 root handle 30: netem delay 10ms"
    assert topology.tc_lines(one) == {"r1": [], "r2": [], "left": [netem]}
    assert topology.removed(one) == [("left", "l0", "root")]
    assert need.qdiscs(one) == {"netem"}
    assert "destinations" not in writer.ideal(one)


def test_destination_values_cycle_or_are_drawn_per_prefix() -> None:
    dealt = destinations(cell(replace(MANY, destination_rtt_ms=(10.0, 20.0))))
    assert [one.rtt_ms for one in dealt[:3]] == [10, 20, 10]
    drawn = replace(MANY, destination_rtt_ms="20 to 200", vary="prefix")
    by_prefix: dict[int, set[float]] = {}
    for one in destinations(cell(drawn)):
        assert one.rtt_ms is not None
        by_prefix.setdefault(one.prefix, set()).add(one.rtt_ms)
    assert all(len(rtts) == 1 for rtts in by_prefix.values())
    assert len({min(rtts) for rtts in by_prefix.values()}) > 20
    assert destinations(cell(drawn)) == destinations(cell(drawn))
    other = destinations(cell(replace(drawn, destination_seed=2)))
    assert other != destinations(cell(drawn))


def test_ranges_are_kept_and_drawn_evenly() -> None:
    generator = random.Random(3)
    even = values("20 to 80", 4000, generator)
    assert min(even) >= 20 and max(even) <= 80 and sum(even) / 4000 == pytest.approx(50, rel=0.03)
    log = values("1 to 100 log", 4000, generator)
    assert sum(value < 10 for value in log) / 4000 == pytest.approx(0.5, abs=0.03)
    drawn = wholes("1 to 3", 3000, generator)
    counts = [drawn.count(n) for n in (1, 2, 3)]
    assert sum(counts) == 3000 and min(counts) > 900


def test_destinations_have_own_delay_and_loss_behind_bottleneck() -> None:
    flow = replace(MANY, destinations=3, destination_rtt_ms=(20.0, 80.0),
                   destination_loss_percent=(1.0, 0.0, 1.0))  # fmt: skip
    lines = topology.tc_lines(cell(flow))
    assert "tbf rate 20000000bit" in lines["r1"][0]
    netem = [line.partition(": netem ")[2] for line in lines["r2"] if " netem " in line]
    assert netem == [
        "limit 100000 delay 40ms",  # what goes to no destination
        "limit 100000 delay 20ms loss random 1%",
        "limit 100000 delay 80ms",
    ]
    lookups = [line for line in lines["r2"] if "/32 flowid" in line]
    assert [line.split("ht ")[1].split()[0] for line in lookups] == ["100:1:", "100:2:", "100:3:"]
    # The third has the first one's values, and shares its class.
    assert [line.rpartition(" ")[2] for line in lookups] == ["2:2", "2:3", "2:2"]
    assert {"sch_htb", "sch_netem", "cls_u32"} <= set(need.modules(cell(flow)))


def test_destination_rate_adds_a_bottleneck_with_own_queue() -> None:
    flow = replace(MANY, destinations=2, destination_rate_mbit=(10.0, 2.0),
                   destination_rtt_ms=(20.0, 100.0))  # fmt: skip
    lines = topology.tc_lines(cell(flow, Link(queue="0.5 bdp")))["r1"]
    assert lines[0] == "qdisc add dev b0 root handle 10: htb default 1"
    queues = [line.partition(" pfifo ")[2] for line in lines if " pfifo " in line]
    # Half of 10 Mbit/s in 20 ms, and of 2 Mbit/s in 100 ms, in full packets.
    assert queues == ["limit 8", "limit 8"]
    rates = [line.split("rate ")[1].split()[0] for line in lines if "ceil" in line]
    assert rates == ["10000000bit", "2000000bit"]


def test_connections_visit_destinations_in_turn_or_as_drawn() -> None:
    (group,) = plan(cell(), 1)["flows"]
    assert group["destinations"][:2] == ["198.18.0.1:5201", "198.18.0.2:5201"]
    assert group["connections"] == 300 and len(group["work"]["bytes"]) == 300
    visited = plan(cell(replace(MANY, visits="1 to 3")), 1)["flows"][0]
    counts = pd.Series(visited["destinations"]).value_counts()
    assert len(counts) == 300 and set(counts) == {1, 2, 3}
    assert visited["connections"] == counts.sum()
    again = plan(cell(replace(MANY, visits="1 to 3")), 1)["flows"][0]
    assert again == visited and plan(cell(replace(MANY, visits="1 to 3")), 2)["flows"][0] != visited
    six = plan(cell(replace(MANY, ip=6)), 1)
    assert six["flows"][0]["destinations"][0] == "[2001:db8:1::1]:5201"
    assert six["serve"]["listen"] == "[::]:5201"


def test_arrivals_are_random_and_within_the_time_given() -> None:
    (group,) = plan(cell(replace(MANY, arrive_within_s=50.0)), 1)["flows"]
    starts = group["at_s"]
    assert len(starts) == 300 and starts == sorted(starts)
    assert starts[0] >= 0 and starts[-1] <= 50
    assert starts[150] == pytest.approx(25, abs=5)


def test_link_change_applies_to_destinations_without_own_loss() -> None:
    flow = replace(MANY, destinations=2, destination_rtt_ms=(20.0, 80.0))
    lossy = (Change(at_s=5, link="bottleneck", loss_percent=2),)
    lines = topology.change_lines(cell(flow, changes=lossy))
    assert [line.partition("delay ")[2] for _, _, line in lines] == [
        "40ms loss random 2%",
        "20ms loss random 2%",
        "80ms loss random 2%",
    ]
    own = replace(flow, destination_loss_percent=(0.0,))
    assert len(topology.change_lines(cell(own, changes=lossy))) == 1


def test_destinations_are_calibrated_by_sample_and_all_recorded() -> None:
    flow = replace(MANY, destination_rtt_ms="20 to 80")
    targets = calibration.targets(cell(flow))
    assert [t.address for t in targets] == ["10.1.10.2", "198.18.0.1", "198.18.15.151",
                                            "198.18.29.50"]  # fmt: skip
    found = writer.ideal(cell(flow))["destinations"]
    assert len(found) == 300
    assert found["198.18.0.1"]["rtt_ms"] == targets[1].link.rtt_ms
    assert found["198.18.0.1"]["prefix"] == 0


def test_cells_survive_json() -> None:
    flow = replace(MANY, destination_rtt_ms=(20.0, 80.0), visits="1 to 3")
    assert cell_from_json(cell(flow).as_json()) == cell(flow)


GOOD = """\
title = "many"
duration_s = 60
[[link]]
rate_mbit = 20
rtt_ms = 20
[[flow]]
name = "cold"
destinations = 20
prefixes = 4
sizes_bytes = [1000, 2000]
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("prefixes = 4", "prefixes = 40", "8: destinations: 40 prefixes are more than"),
        ("= 20\nprefixes = 4", "= 2000\nprefixes = 4", "8: destinations: a prefix has room for"),
        ("destinations = 20\n", "", "6: destinations: prefixes need destinations"),
        ("prefixes = 4", 'transport = "mptcp"', "8: destinations: many destinations are for tcp"),
        ("prefixes = 4", "private = true", "8: destinations: private addresses need a direct path"),
        ("= 20\nprefixes = 4", "= 60001\nprefixes = 300", "8: destinations: more than 60000 need"),
        ("prefixes = 4", 'visits = "2"', "9: visits: '2' is no range; write"),
        ("prefixes = 4", 'visits = "3 to 1"', "9: visits: '3 to 1' is no range; write"),
        ("prefixes = 4", "visits = 2\nconnections = 3", "9: visits: give visits or connections"),
        ("prefixes = 4", "arrive_within_s = 61", "9: arrive_within_s: it ends after duration_s"),
        ("prefixes = 4", "destination_rate_mbit = 2", "9: destination_rate_mbit: the link has a"),
        ("prefixes = 4", "destination_loss_percent = 100", "9: destination_loss_percent: 100 is"),
        ("prefixes = 4", "ip = 5", "9: ip: 5 is no version of IP"),
        ("sizes_bytes = [1000, 2000]", "sizes_bytes = 0", "10: sizes_bytes: 0 is impossible"),
    ],
)  # fmt: skip
def test_scenario_errors_name_their_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = tmp_path / "many.toml"
    path.write_text(GOOD)
    load(path)
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    said = [line.removeprefix(f"{path}:") for line in caught.value.lines]
    assert any(line.startswith(expected) for line in said), said


def test_direct_path_refuses_settings_per_destination(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    direct = GOOD.replace("rate_mbit = 20", 'path = "direct"')
    path.write_text(direct)
    load(path)
    path.write_text(direct + "destination_rtt_ms = [5, 10]\n")
    with pytest.raises(ScenarioError, match="a direct path has no destination_rtt_ms"):
        load(path)


def rows() -> pd.DataFrame:
    """Two connections to a near destination, one of them failing, and one to a far one."""
    base = {"end_s": 1.0, "bytes": 1_000_000, "fct_s": 1.0, "sent_packets": 800}
    return pd.DataFrame(
        [
            flow_row(0, "cold", "cubic", to="198.18.0.1", retransmitted_packets=80, **base),
            flow_row(1, "cold", "cubic", to="198.18.0.1", error="reset", **base),
            flow_row(2, "cold", "cubic", to="198.18.1.2", retransmitted_packets=0, **base),
        ]
    )


def test_utility_pays_for_what_is_sent_twice() -> None:
    assert utilities_mbit(rows()).tolist() == pytest.approx([8 * 0.9, 0, 8])
    assert geometric_mean(pd.Series([2.0, 8.0])) == pytest.approx(4)
    assert geometric_mean(pd.Series([2.0, 0.0])) == 0
    assert geometric_mean(pd.Series(dtype=float)) is None


def test_results_are_grouped_by_destination_with_its_path() -> None:
    paths = {"198.18.0.1": OwnPath(0, 20.0, None, 1.0), "198.18.1.2": OwnPath(1, 80.0, 4.0, 0.0)}
    near, far = of_destinations(rows(), paths)
    assert (near["connections"], near["failed"], near["rtt_ms"]) == (2, 1, 20)
    assert near["retransmit_ratio"] == pytest.approx(0.05)
    assert (far["utility_mbit"], far["prefix"], far["rate_mbit"]) == (8, 1, 4)
    ideal = Ideal(10, {}, {"cold": Group(20.0, (), 1)}, paths)
    slow = delays.slowdowns(rows(), ideal)["slowdown"].tolist()
    # Two round trips, and for the far one a megabyte at 4 Mbit/s.
    assert slow == pytest.approx([1 / 0.04, 1 / 2.16])
