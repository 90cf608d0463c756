"""Scenario files: accepted values, and refusals with file and line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tcplab.cli.main import main
from tcplab.scenario import Scenario, ScenarioError, find, load, names
from tcplab.scenario.lines import index, line_of
from tcplab.scenario.load import overlay
from tcplab.scenario.model import Flow, Link, cell_from_json, queue_bytes, queue_packets
from tcplab.scenario.select import selected

FLOW_KEYS = [field.name for field in dataclasses.fields(Flow)]

GOOD = """\
title = "two flows"
duration_s = 10

[[link]]
rate_mbit = 10
rtt_ms = 20
queue = "1 bdp"

[[flow]]
name = "first"
cc = "cubic"

[[flow]]
name = "second"
cc = "bbr"

[sweep.qdisc]
set = "link.bottleneck.qdisc"
values = ["pfifo", "fq_codel"]
"""


def problems(tmp_path: Path, text: str, quick: bool = False) -> list[str]:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load(path, quick)
    return [line.removeprefix(f"{path}:") for line in caught.value.lines]


def good(tmp_path: Path, text: str = GOOD, quick: bool = False) -> Scenario:
    path = tmp_path / "good.toml"
    path.write_text(text)
    return load(path, quick)


def test_sweep_multiplies_and_labels_points(tmp_path: Path) -> None:
    scenario = good(tmp_path, GOOD + '[sweep.cc]\nset = "flow.first.cc"\nvalues = ["reno", "bic"]')
    assert [point.labels for point in scenario.points] == [
        {"qdisc": "pfifo", "cc": "reno"},
        {"qdisc": "pfifo", "cc": "bic"},
        {"qdisc": "fq_codel", "cc": "reno"},
        {"qdisc": "fq_codel", "cc": "bic"},
    ]
    assert scenario.points[3].cell.links[0].qdisc == "fq_codel"
    assert scenario.points[3].cell.flows[0].cc == "bic"


def test_symmetric_axes_give_unordered_pairs_and_solo_runs(tmp_path: Path) -> None:
    text = GOOD.partition("[sweep")[0] + (
        '[sweep]\nsymmetric = ["a", "b"]\n'
        'a = { set = "flow.first.cc", values = ["reno", "bic", "bbr"] }\n'
        'b = { set = "flow.second.cc", first = ["none"], values_of = "a" }\n'
    )
    pairs = [tuple(point.labels.values()) for point in good(tmp_path, text).points]
    assert len(pairs) == 6 + 3
    assert ("bic", "none") in pairs and ("reno", "bbr") in pairs
    assert ("bbr", "reno") not in pairs


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "rate_mbit = 10",
            "rate_mbti = 10",
            "5: unknown key 'rate_mbti'; did you mean 'rate_mbit'?",
        ),
        ("rate_mbit = 10", "rate_mbit = 0", "5: rate_mbit: 0 is impossible: it must be above 0"),
        ("rate_mbit = 10", "rate_mbit = -3", "5: rate_mbit: -3 is impossible"),
        ("rate_mbit = 10", "rate_mbit = 1e9", "5: rate_mbit: 1e+09 is impossible: it must be at"),
        ("rate_mbit = 10", 'rate_mbit = "10"', "5: rate_mbit: a number is expected, not '10'"),
        ("rtt_ms = 20", "rtt_ms = true", "6: rtt_ms: a number is expected, not True"),
        ('"1 bdp"', '"1 bpd"', "7: queue: '1 bpd' is no queue; write"),
        ("rtt_ms = 20", "rtt_ms = 0", "7: queue: '1 bdp' needs rtt_ms above 0"),
        ('name = "second"', 'name = "first"', "13: flow 'first' is there twice"),
        ("duration_s = 10", "duration_s = 0", "2: duration_s: 0 is impossible"),
        ('title = "two flows"', 'titel = "x"', "1: unknown key 'titel'; did you mean 'title'?"),
        ('cc = "bbr"', "loss = 3", "15: unknown key 'loss'"),
        ('cc = "bbr"', "start_s = 11", "15: start_s: 11 is not before duration_s, 10"),
        ('cc = "bbr"', 'transport = "mptcp"', "15: transport: mptcp needs two [[link]]"),
        ('cc = "bbr"', 'transport = "mpquic"', "15: transport: mpquic needs two [[link]]"),
        ('cc = "bbr"', 'transport = "sctp"', "15: transport: 'sctp' is not known; there are: tcp"),
        (
            'name = "second"',
            'transport = "quic"',
            "15: cc: quic has no 'bbr'; did you mean 'bbr3'?",
        ),
        (
            'cc = "bbr"',
            'transport = "quic"\nkind = "short"',
            "16: kind: quic carries bulk and pareto, not short",
        ),
        (
            '"fq_codel"',
            '"fq_cobel"',
            "17: qdisc: 'fq_cobel' is not known; did you mean 'fq_codel'?",
        ),
        ("link.bottleneck.q", "link.botleneck.q", "17: qdisc: there is no link 'botleneck'; did"),
        ("link.bottleneck.q", "lnk.bottleneck.q", "17: qdisc: 'lnk.bottleneck.qdisc' cannot be"),
        ("[sweep.qdisc]", "[swep.qdisc]", "17: unknown key 'swep'; did you mean 'sweep'?"),
        ('title = "two flows"', "title = ", "1: no TOML"),
        ("rtt_ms = 20", 'back_qdisc = "cake"', "6: back_qdisc: it needs back_rate_mbit"),
        ("rtt_ms = 20", "second_rate_mbit = 5", "4: second_queue: '1 bdp' needs rtt_ms above 0"),
        (
            "[sweep.qdisc]",
            '[[change]]\nat_s = 1\nlink = "bottleneck"\nqueue = "x"\n[sweep.qdisc]',
            "20: queue: 'x' is no queue",
        ),
        ("rtt_ms = 20", 'path = "direct"', "6: path: a direct path has no rate_mbit"),
    ],
)
def test_scenario_errors_name_their_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    found = problems(tmp_path, text)
    assert any(line.startswith(expected) for line in found), found


SHARED = """\
title = "two paths, one bottleneck"
duration_s = 10

[[link]]
name = "one"
rate_mbit = 10
rtt_ms = 20

[[link]]
name = "two"
shares = "one"
rtt_ms = 40

[[flow]]
name = "both"
transport = "mptcp"
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", None),
        ('shares = "one"', 'shares = "two"', "11: shares: there is no link 'two' before this one"),
        (
            "rtt_ms = 40",
            'rtt_ms = 40\nrate_mbit = 5\nqueue = "9 ms"',
            "11: shares: rate_mbit, queue is that of 'one'; leave it out",
        ),
        ("rtt_ms = 20", 'place = "host"', "11: shares: what 'one' has cannot be shared: place"),
        (
            "[[flow]]",
            '[[change]]\nat_s = 1\nlink = "two"\nqueue = "9 ms"\n[[flow]]',
            "17: queue: this link's queue is that of 'one'",
        ),
    ],
)
def test_a_link_may_share_an_earlier_links_bottleneck(
    tmp_path: Path, old: str, new: str, expected: str | None
) -> None:
    text = SHARED.replace(old, new, 1)
    if expected is None:
        assert good(tmp_path, text).points[0].cell.links[1].shares == "one"
    else:
        assert problems(tmp_path, text)[-1:] == [expected]


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("rate_mbit = 10", "rate_mbit = 0").replace('cc = "bbr"', "xyz = 1")
    found = problems(tmp_path, text)
    assert len(found) == 2 and found[0].startswith("5:") and found[1].startswith("15:")


WRONG = """\
titel = "all at once"
duration_s = 10

[[link]]
rate_mbti = 10
rtt_ms = 20
queue = "1 bpd"
jitter_ms = 30
qdisc = "cake"

[[flow]]
name = "first"
start_s = 11
loss = 3

[[flow]]
name = "first"
cc = 5

[[change]]
at_s = 20
link = "botleneck"

[sweep.qdisc]
set = "link.bottleneck.qdisc"
values = ["pfifo", "fq_codle"]

[sweep.cc]
vales = ["cubic"]
set = "flow.first.cc"

[[expect]]
metric = "jain"
where = { qdsic = "pfifo" }
low = 1
"""


def test_no_mistake_hides_another(tmp_path: Path) -> None:
    """Unknown keys, values, what concerns several keys, axes and expectations at one go."""
    assert problems(tmp_path, WRONG) == [
        "1: unknown key 'titel'; did you mean 'title'?",
        "5: unknown key 'rate_mbti'; did you mean 'rate_mbit'?",
        '7: queue: \'1 bpd\' is no queue; write "100 packets", "64000 bytes", "50 ms" or "1 bdp"',
        "8: jitter_ms: 30 is more than the delay behind the bottleneck, 20",
        "13: start_s: 11 is not before duration_s, 10",
        "14: unknown key 'loss'; there are: " + ", ".join(FLOW_KEYS),
        "16: flow 'first' is there twice",
        "18: cc: 5 is no name: up to 15 of a-z, 0-9, - and _",
        "21: at_s: a time before duration_s is needed",
        "22: link: there is no link 'botleneck'; did you mean 'bottleneck'?",
        "24: qdisc: 'fq_codle' is not known; did you mean 'fq_codel'?",
        "29: unknown key 'vales'; did you mean 'values'?",
        "34: where: there is no axis 'qdsic'; did you mean 'qdisc'?",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Each spoils a value used by others: one mistake, one line.
        ("rate_mbit = 10", 'rate_mbit = "x"\nqdisc = "cake"'),
        ("rtt_ms = 20", "rtt_sm = 20"),
        ("duration_s = 10", "duration_s = -1"),
        ("[[link]]", "[[lnik]]"),
        ("[sweep.qdisc]", "[swep.qdisc]"),
        ('set = "link', 'st = "link'),
        ('values = ["pfifo", "fq_codel"]', 'values = ["pfifo", "pfifo"]'),
        ('name = "first"', "name = 5"),
    ],
)
def test_a_mistake_is_told_once(tmp_path: Path, old: str, new: str) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    assert len(problems(tmp_path, text)) == 1


def test_a_broken_sweep_causes_no_further_errors(tmp_path: Path) -> None:
    """cake needs the rate from the broken axis."""
    text = GOOD.replace("rate_mbit = 10", 'qdisc = "cake"').partition("[sweep")[0]
    text += '[sweep.rate]\nset = "link.bottleneck.rate_mbit"\nvalues = []\n'
    assert problems(tmp_path, text) == [
        "17: rate: values: a list with at least one value is expected"
    ]


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        (
            "before_share = 0.5\njitter_ms = 12",
            "12 is more than the delay behind the bottleneck, 10",
        ),
        ("before_share = 1\nreorder_percent = 1", "what is reordered skips the delay behind"),
        ('before_share = 0.5\nplace = "host"', "the bottleneck is at the sender"),
        ("before_share = 1.5", "before_share: 1.5"),
    ],
)
def test_the_senders_part_has_limits(tmp_path: Path, link: str, wrong: str) -> None:
    found = problems(tmp_path, GOOD.replace("rtt_ms = 20", f"rtt_ms = 20\n{link}"))
    assert len(found) == 1 and wrong in found[0]


def test_both_forms_are_checked_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace("rtt_ms", "rtt_sm") + "[quick]\nduration_s = -1\n")
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1].rpartition(":")[2] for line in said] == ["6", "21"]


def test_expectations_are_checked_for_form(tmp_path: Path) -> None:
    text = GOOD + '[[expect]]\nmetric = "jain"\nwhere = { qdsic = "pfifo" }\nlow = 2\nhigh = 1\n'
    found = problems(tmp_path, text)
    assert any("did you mean 'qdisc'" in line for line in found)
    assert any("2 is above high, 1" in line for line in found)


def test_a_misspelled_metric_of_an_expectation_is_named(tmp_path: Path) -> None:
    text = GOOD + '[[expect]]\nmetric = "retransmit_rato.first"\nhigh = 1\n'
    assert any("did you mean 'retransmit_ratio'" in line for line in problems(tmp_path, text))


def test_quick_form_replaces_lists_and_keeps_the_rest(tmp_path: Path) -> None:
    text = GOOD + '[quick]\nduration_s = 5\nsweep.qdisc.values = ["pie"]\n'
    scenario = good(tmp_path, text, quick=True)
    assert [point.labels for point in scenario.points] == [{"qdisc": "pie"}]
    assert scenario.points[0].cell.duration_s == 5
    assert scenario.points[0].cell.links[0].rate_mbit == 10
    assert problems(tmp_path, GOOD, quick=True) == [
        " there is no [quick] form; run it without --quick"
    ]


def test_overlay_leaves_its_base_alone() -> None:
    base = {"a": {"b": [1], "c": 2}}
    assert overlay(base, {"a": {"b": [3]}}) == {"a": {"b": [3], "c": 2}}
    assert base == {"a": {"b": [1], "c": 2}}


TOOLS = """\
title = "tools"
[[link]]
rate_mbit = 10
rtt_ms = 20
[[flow]]
name = "chosen"
[[flow]]
name = "set"
cc = "reno"
[tools.eager]
tuner = "tcpilot"
config = "[learner]\\nepsilon = 5"
[sweep.variant]
tools = ["cubic", "tcpilot", "eager"]
"""


def test_a_tool_may_appear_with_several_configurations(tmp_path: Path) -> None:
    points = good(tmp_path, TOOLS).points
    assert [point.labels["variant"] for point in points] == ["cubic", "tcpilot", "eager"]
    cubic, plain, eager = (point.cell for point in points)
    # Only the flow without an algorithm is the tool's.
    assert [flow.cc for flow in cubic.flows] == ["cubic", "reno"] and cubic.tuner.name == "none"
    assert [flow.cc for flow in eager.flows] == ["default", "reno"]
    assert (plain.tuner.name, plain.tuner.config) == ("tcpilot", "")
    assert (eager.tuner.name, eager.tuner.config) == ("tcpilot", "[learner]\nepsilon = 5")


CONDITIONAL = """
[sweep.loss]
values = [{ label = "0.5", link.bottleneck.loss_percent = 0.5, qdisc.pfifo.flow.first.bytes = 7 }]
"""


def test_a_key_may_depend_on_another_label(tmp_path: Path) -> None:
    points = good(tmp_path, GOOD + CONDITIONAL).points
    assert [(p.labels["qdisc"], p.cell.flows[0].bytes) for p in points] == [
        ("pfifo", 7),
        ("fq_codel", None),
    ]
    assert all(p.cell.links[0].loss_percent == 0.5 for p in points)


def test_a_key_of_an_unknown_label_is_refused(tmp_path: Path) -> None:
    (wrong,) = problems(tmp_path, GOOD + CONDITIONAL.replace("qdisc.pfifo", "qdisc.pfif"))
    assert "qdisc.pfif.flow.first.bytes: qdisc has no label 'pfif'; did you mean 'pfifo'" in wrong


def test_a_label_left_out_still_counts(tmp_path: Path) -> None:
    text = GOOD + CONDITIONAL + '[quick]\nsweep.qdisc.only = ["fq_codel"]\n'
    (point,) = good(tmp_path, text, quick=True).points
    assert point.cell.flows[0].bytes is None


@pytest.mark.parametrize("path", ["router", "direct"])
def test_choice_and_short_have_both_paths(path: str) -> None:
    routed = {"router": "routed", "direct": "direct"}[path]
    for campaign in ("choice", "short"):
        points = [p for p in load(find(campaign)).points if p.labels["path"] == path]
        assert {p.cell.links[0].path for p in points} == {routed}
    seconds = {
        p.labels["condition"]: p.cell.flows[0].each_s
        for p in load(find("choice")).points
        if p.labels["path"] == path
    }
    assert (
        seconds
        == {
            "router": {"loss10": 1, "loss5": 1, "loss0": 1, "latency10": 1, "latency100": 3},
            "direct": {"loss10": 2, "loss5": 2, "loss0": 0.1, "latency10": 0.4, "latency100": 2},
        }[path]
    )


def test_tool_errors_name_their_line(tmp_path: Path) -> None:
    found = problems(tmp_path, TOOLS.replace('"tcpilot"\nconfig', '"tcpliot"\nconfig'))
    assert found == ["11: tuner: 'tcpliot' is not known; did you mean 'tcpilot'?"]
    found = problems(tmp_path, TOOLS.replace('"eager"]', '"eagre"]'))
    assert found == ["13: variant: tools: 'eagre' is not known; did you mean 'eager'?"]
    found = problems(tmp_path, TOOLS.replace("config =", "confg ="))
    assert "unknown key 'confg'; did you mean 'config'?" in found[0]


def test_quick_form_may_select_sweep_values(tmp_path: Path) -> None:
    quick = TOOLS + '[quick]\nsweep.variant.only = ["cubic", "eager"]\n'
    assert [p.labels["variant"] for p in good(tmp_path, quick, quick=True).points] == [
        "cubic",
        "eager",
    ]
    assert len(good(tmp_path, quick).points) == 3
    wrong = quick.replace('only = ["cubic"', 'only = ["cubci"')
    assert problems(tmp_path, wrong, quick=True) == [
        "16: variant: only: there is no 'cubci'; did you mean 'cubic'?"
    ]


def test_lines_of_nested_tables_are_found() -> None:
    lines = index('a = 1\n[[x]]\nk = 1\n[[x]]\n"q.r" = 2\n[y.z]\nk = 3\n')
    assert lines["x", 1, "q.r"] == 5
    assert lines["y", "z", "k"] == 7
    assert line_of(lines, ("x", 0, "nothing")) == 2
    assert line_of(lines, ("nowhere",)) is None


@pytest.mark.parametrize(
    ("queue", "size_bytes"),
    [("100 packets", 151_400), ("64000 bytes", 64_000), ("50 ms", 62_500), ("2 bdp", 50_000)],
)
def test_queues_are_sized_by_their_unit(queue: str, size_bytes: int) -> None:
    assert queue_bytes(Link(rate_mbit=10, rtt_ms=20, queue=queue)) == size_bytes


def test_tuners_are_for_tcp(tmp_path: Path) -> None:
    quic = GOOD.replace('cc = "bbr"', 'cc = "reno"\ntransport = "quic"')
    tuned = quic.replace("[sweep.qdisc]", '[tuner]\nname = "tcpilot"\n\n[sweep.qdisc]')
    (found,) = problems(tmp_path, tuned)
    assert found.startswith("16: transport: tuners do not see QUIC"), found


def test_results_from_before_quic_are_still_read() -> None:
    old = load(find("mptcp"), quick=True).points[0].cell.as_json()
    for flow in old["flows"]:
        assert flow.pop("transport") == "mptcp"
        flow["mptcp"] = True
    assert cell_from_json(old).flows[0].transport == "mptcp"
    old["flows"][0]["mptcp"] = False
    assert cell_from_json(old).flows[0].transport == "tcp"


def test_a_queue_holds_two_packets_at_least() -> None:
    assert queue_packets(Link(rate_mbit=0.1, rtt_ms=1, queue="1 bdp")) == 2


def test_campaigns_are_good_in_both_forms() -> None:
    wanted = {"bbr", "choice", "fairness", "fct", "mpquic", "mptcp", "rtt-fairness", "short"}
    assert wanted <= set(names())
    for name in names():
        full, quick = load(find(name)), load(find(name), quick=True)
        assert full.top.scale and quick.top.scale
        assert len(quick.points) * quick.top.repetitions <= len(full.points) * full.top.repetitions


def test_unknown_campaigns_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"fairnes: there is no such campaign; there are: bbr"):
        find("fairnes")
    with pytest.raises(ScenarioError, match=r"nothing\.toml: there is no such file"):
        find("nothing.toml")


def test_ect1_needs_ipv4_and_a_router_bottleneck(tmp_path: Path) -> None:
    marked = GOOD.replace("rtt_ms = 20", "rtt_ms = 20\nect1 = true")
    good(tmp_path, marked)
    (six,) = problems(tmp_path, marked.replace('cc = "bbr"', 'cc = "bbr"\nip = 6'))
    assert "ect1: only packets of IPv4 get ECT(1)" in six
    (host,) = problems(tmp_path, marked.replace("ect1", 'place = "host"\nect1'))
    assert "ect1: the bottleneck is before the router" in host


def test_only_takes_the_former_name_of_an_axis() -> None:
    scenario = load(find("choice"))
    former, present = (selected(scenario, [f"{axis}=cubic"]) for axis in ("way", "variant"))
    assert former.points == present.points
    assert former.points
