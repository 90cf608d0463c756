"""The published tables are whole, and ours are matched to them by labels."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab import published
from tcplab.report.published import compare
from tcplab.scenario import find, load


def point(labels: dict[str, Any], **medians: float) -> dict[str, Any]:
    metrics = {
        n: {"median": v, "low": v - 0.01, "high": v + 0.01, "count": 6} for n, v in medians.items()
    }
    return {"labels": labels, "metrics": metrics}


def test_every_table_loads_and_names_its_source() -> None:
    for name in published.names():
        table = published.load(name)
        assert table.title
        assert table.source
        assert table.figures


@pytest.mark.parametrize("name", ["p4air-fifo", "p4air-aqm"])
def test_jain_matrices_are_14_by_14(name: str) -> None:
    figures = published.load(name).figures
    assert len(figures) == 196
    assert len({f.where["first"] for f in figures}) == 14
    assert all(0.5 <= f.value <= 1 for f in figures), "Jain's index of two flows"


@pytest.mark.parametrize("name", ["p4air-fifo", "p4air-aqm"])
def test_jain_matrices_are_symmetric(name: str) -> None:
    values = {(f.where["first"], f.where["second"]): f.value for f in published.load(name).figures}
    assert all(v == values[b, a] for (a, b), v in values.items())


def test_tables_match_the_slides() -> None:
    """Read off the slides by eye: a row or a column of each."""

    def row(name: str, **where: str) -> list[float]:
        figures = published.load(name).figures
        return [f.value for f in figures if where.items() <= f.where.items()]

    assert row("p4air-fifo", first="Vegas")[:9] == [0.53] * 4 + [0.52] * 3 + [1.0, 0.67]
    assert row("p4air-aqm", second="BBR")[-2:] == [0.91, 0.66]
    assert row("p4air-rtt-fifo", cc="BBR")[:3] == [0.97, 0.56, 0.54]
    assert row("p4air-rtt-aqm", cc="Vegas")[-1] == 0.96
    assert row("p4air-mptcp", case="equal", cc="BBR") == [0.9745, 0.4548]
    assert row("p4air-mptcp", case="rate", cc="BBR") == [19.78 / 20, 0.7243]
    assert row("p4air-mptcp", case="rtt", cc="Cubic") == pytest.approx([0.4244, 0.9204])
    figures = published.load("p4air-mptcp").figures
    assert [f.text for f in figures if f.where == {"case": "rate", "cc": "BIC"}] == [
        "19.80 of 20",
        "98.90 of 100",
    ]
    assert len(figures) == 18 * 3 * 2


def test_each_transport_stands_beside_its_own_table() -> None:
    """OLIA over equal links: MPTCP had 98 % of each, the slides' multipath QUIC 73 %."""
    labels = {"case": "equal", "cc": "tp_olia"}
    points = [
        point({**labels, "transport": "mptcp"}, **{"link_share.link1": 0.9}),
        point({**labels, "transport": "mpquic"}, **{"link_share.link1": 0.8}),
    ]
    for name, ours, theirs in (("p4air-mptcp", 0.9, 0.9811), ("p4air-mpquic", 0.8, 0.7345)):
        (found,) = compare(published.load(name), points)
        assert found.condition == {"transport": name.removeprefix("p4air-")}
        (pair,) = [p for p in found.pairs if p.ours is not None]
        assert (pair.ours, pair.published) == (ours, pytest.approx(theirs))
    assert len(published.load("p4air-mpquic").figures) == 3 * 2 * 2
    alone = [point(labels, **{"link_share.link1": 0.9})]
    assert compare(published.load("p4air-mptcp"), alone), "a campaign without the axis"


def test_bpftunes_tables_have_four_arms_each() -> None:
    arms = published.load("bpftune-article").arms
    assert len(arms) == 24
    assert arms[3] == {
        "condition": "loss0",
        "arm": "dctcp",
        "cost": 523593,
        "count": 65,
        "greedy": 65,
        "min_rtt_us": 4,
        "max_delivery_rate": 8235,
    }


def test_spellings_of_a_name_are_one() -> None:
    assert published.canonical("HS-TCP") == published.canonical("highspeed") == "highspeed"
    assert published.canonical("YeAH") == "yeah"
    assert published.canonical("20") == published.canonical(20) == 20.0


def test_pairs_match_in_either_order_and_by_condition() -> None:
    table = published.load("p4air-fifo")
    points = [
        point({"qdisc": "pfifo", "first": "cubic", "second": "cubic"}, jain=0.99),
        point({"qdisc": "pfifo", "first": "bbr", "second": "cubic"}, jain=0.70),
        point({"qdisc": "pfifo", "first": "highspeed", "second": "vegas"}, jain=0.55),
        point({"qdisc": "fq_codel", "first": "cubic", "second": "cubic"}, jain=1.0),
        point({"qdisc": "pfifo", "first": "cubic", "second": "none"}),
    ]
    (found,) = compare(table, points)
    assert found.condition == {"qdisc": "pfifo"}
    assert found.compared == 3
    assert found.rank_correlation == pytest.approx(1)
    worst = found.widest()[0]
    assert {worst.where["first"], worst.where["second"]} == {"BBR", "Cubic"}
    assert worst.gap == pytest.approx(0.12)


def test_ratios_are_of_two_points() -> None:
    points = [
        point({"case": "loss", "cc": "cubic"}, goodput_mbit=2.0),
        point({"case": "loss", "cc": "bbr"}, goodput_mbit=90.0),
    ]
    (found,) = compare(published.load("bbr-commit"), points)
    ours = {p.what: p.ours for p in found.pairs}
    assert ours["bbr over cubic at 1 % loss"] == pytest.approx(45)
    assert ours["cubic's median RTT over bbr's"] is None


def test_tcpilots_algorithm_replaces_only_missing_kernel_runs() -> None:
    table = published.load("p4air-fifo")
    own = [
        point({"qdisc": "pfifo", "first": "cubic", "second": "tp_lola"}, jain=0.6),
        point({"qdisc": "pfifo", "first": "cubic", "second": "tp_bbr"}, jain=0.7),
    ]
    kernels = point({"qdisc": "pfifo", "first": "cubic", "second": "bbr"}, jain=0.8)

    def ours(points: list[dict[str, Any]]) -> dict[str, float | None]:
        (found,) = compare(table, points)
        return {p.where["second"]: p.ours for p in found.pairs if p.where["first"] == "Cubic"}

    assert ours(own)["LoLa"] == 0.6
    assert ours(own)["BBR"] == 0.7
    assert ours([kernels, *own])["BBR"] == 0.8
    assert ours([*own, kernels])["BBR"] == 0.8


def test_a_campaign_of_other_conditions_compares_with_nothing() -> None:
    assert compare(published.load("p4air-fifo"), [point({"first": "x", "second": "y"})]) == []
    with pytest.raises(KeyError, match="no published table"):
        published.load("nothing")


def test_choice_has_the_published_conditions() -> None:
    """Under both paths; without delay or loss one cell serves for both of the article's tables."""
    article = published.load("bpftune-article")
    theirs = {figure.where["condition"] for figure in article.figures}
    for path in ("router", "direct"):
        points = load(find(article.campaign)).points
        ours = {p.labels["condition"] for p in points if p.labels["path"] == path}
        assert theirs - ours == {"latency0"} and ours <= theirs
