"""Metrics against values computed by hand, and properties of all inputs."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import SECONDS, flow_row, write_campaign, write_cell, write_pair

from tcplab.engine.measures import processor_s
from tcplab.metrics import delays, rates
from tcplab.metrics.cell import _processor_of, cell_metrics
from tcplab.metrics.fairness import harm, jain, max_min_shares
from tcplab.metrics.intervals import median_interval, two_modes
from tcplab.results.read import Group, Ideal, read_cell

POSITIVE = st.floats(min_value=1e-3, max_value=1e12)
IDEAL = Ideal(10.0, {"bottleneck": 10.0}, {"load": Group(20.0, ("bottleneck",), 1)})


def test_jain_by_hand() -> None:
    assert jain([1, 1]) == pytest.approx(1)
    assert jain([1, 0]) == pytest.approx(0.5)
    assert jain([3, 1]) == pytest.approx(16 / 20)
    assert jain([1, 2, 3]) == pytest.approx(36 / 42)
    assert jain([]) is None
    assert jain([0, 0]) is None


@given(st.lists(POSITIVE, min_size=1, max_size=20), POSITIVE)
def test_jain_is_bounded_and_knows_no_scale(values: list[float], factor: float) -> None:
    index = jain(values)
    assert index is not None
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert jain([v * factor for v in values]) == pytest.approx(index)


def test_harm_by_hand() -> None:
    assert harm(10, 4, more_is_better=True) == pytest.approx(0.6)
    assert harm(20, 80, more_is_better=False) == pytest.approx(0.75)
    assert harm(10, 12, more_is_better=True) == pytest.approx(-0.2)
    assert harm(None, 4, more_is_better=True) is None
    assert harm(0, 4, more_is_better=True) is None


def test_max_min_by_hand() -> None:
    # The text book's parking lot: a long flow over both links, one on each of them.
    shares = max_min_shares({"a": 10, "b": 4}, [("a", "b"), ("a",), ("b",)])
    assert shares == pytest.approx([2, 8, 2])
    assert max_min_shares({"a": 9}, [("a",)] * 3) == pytest.approx([3, 3, 3])
    assert max_min_shares({"a": 10}, [("a",), ("a",)], [2, 100]) == pytest.approx([2, 8])


@given(
    st.dictionaries(st.sampled_from("abc"), POSITIVE, min_size=1),
    st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=1, max_size=6),
)
def test_max_min_limits_every_flow_without_overload(
    capacity: dict[str, float], crosses: list[set[str]]
) -> None:
    routes = [tuple(links & capacity.keys()) or (next(iter(capacity)),) for links in crosses]
    shares = max_min_shares(capacity, routes)
    load = {
        link: sum(s for s, r in zip(shares, routes, strict=True) if link in r) for link in capacity
    }
    assert all(load[link] <= room * (1 + 1e-6) for link, room in capacity.items())
    full = {link for link, room in capacity.items() if load[link] >= room * (1 - 1e-6)}
    for share, route in zip(shares, routes, strict=True):
        most = [
            link
            for link in full & set(route)
            if share >= max(s for s, r in zip(shares, routes, strict=True) if link in r) * 0.999999
        ]
        assert most, "every flow has a full link on which none gets more than it"


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [
        # Conover's table A3 for p = 1/2; 1 − 2·Σ C(n, i)/2ⁿ by hand.
        (6, 1, 6, 1 - 2 / 64),
        (8, 1, 8, 1 - 2 / 256),
        (9, 2, 8, 1 - 2 * 10 / 512),
        (10, 2, 9, 1 - 2 * 11 / 1024),
        (15, 4, 12, 1 - 2 * (1 + 15 + 105 + 455) / 2**15),
    ],
)
def test_interval_is_a_pair_of_order_statistics(
    count: int, low: int, high: int, coverage: float
) -> None:
    found = median_interval([float(i) for i in range(count, 0, -1)])
    assert found is not None
    assert (found.low, found.high) == (low, high)
    assert found.coverage == pytest.approx(coverage, abs=1e-4)
    assert found.enough


def test_fewer_than_six_repetitions_are_too_few() -> None:
    found = median_interval([5, 1, 3])
    assert found is not None
    assert (found.low, found.median, found.high) == (1, 3, 5)
    assert found.coverage == 0.75
    assert not found.enough
    single = median_interval([2.0])
    assert single is not None
    assert single.coverage == 0
    assert median_interval([]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_interval_contains_the_median(values: list[float]) -> None:
    found = median_interval(values)
    assert found is not None
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert found.enough == (len(values) >= 6)


def test_two_modes_are_seen_and_one_is_not() -> None:
    assert two_modes([1.0, 1.1, 1.2, 9.0, 9.1, 9.3])
    assert not two_modes([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert not two_modes([1.0, 1.1, 1.2, 1.3, 1.4, 9.0]), "a single outlier is no mode"
    assert not two_modes([10.0, 10.0, 10.0, 10.1, 10.1, 10.1]), "a gap of 1 % is none"


def flows_frame(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def test_goodput_by_hand() -> None:
    flows = flows_frame(
        flow_row(0, "load", "cubic", start_s=0.0, end_s=4.0, bytes=1_000_000),
        flow_row(1, "load", "cubic", start_s=6.0, end_s=10.0, bytes=1_500_000),
        flow_row(2, "load", "cubic", start_s=1.0, end_s=2.0, bytes=7, error="reset"),
    )
    assert rates.flow_goodputs_mbit(flows).tolist() == pytest.approx([2, 3, 0])
    assert rates.goodput_mbit(flows) == pytest.approx(2_500_007 * 8e-6 / 10)
    assert rates.goodput_mbit(flows.iloc[:0]) is None


def test_standstill_is_the_longest_among_reporting_flows(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "path-down", {"cc": ["cubic"]})
    rows = flows_frame(
        flow_row(0, "first", "cubic", standstill_s=0.2),
        flow_row(1, "first", "cubic", standstill_s=0.7),
        flow_row(2, "second", "cubic", standstill_s=math.nan),
    )
    found = cell_metrics(read_cell(write_cell(campaign, {"cc": "cubic"}, flows=rows)))
    assert found["values"]["standstill_s"] == 0.7
    assert found["groups"]["first"]["standstill_s"] == 0.7
    assert found["groups"]["second"]["standstill_s"] is None


def test_utilisation_counts_what_left_the_queue_between_samples() -> None:
    queues = pd.DataFrame(
        {"t_s": [1.0, 3.0], "link": "bottleneck", "sent_bytes": [100.0, 2_000_100.0]}
    )
    assert rates.utilisation(queues, "bottleneck", 10.0) == pytest.approx(0.8)
    assert rates.utilisation(queues, "other", 10.0) is None
    assert rates.utilisation(queues, "bottleneck", None) is None


def cumulative(flow: int, times: list[float], acked: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"t_s": times, "flow": flow, "link": None, "bytes_acked": acked})


def test_seconds_are_interpolated_and_only_whole_ones_count() -> None:
    flows = flows_frame(
        flow_row(0, "load", "cubic", end_s=3.0), flow_row(1, "load", "cubic", start_s=0.5, end_s=3)
    )
    samples = pd.concat(
        [
            cumulative(0, [0.0, 1.5, 3.0], [0.0, 150.0, 300.0]),
            cumulative(1, [0.5, 3.0], [0.0, 500.0]),
        ]
    )
    found = rates.bytes_per_second(samples, flows)
    assert found[0].tolist() == pytest.approx([100, 100, 100])
    assert math.isnan(found[1].iloc[0])
    assert found[1].tolist()[1:] == pytest.approx([200, 200])
    assert rates.jain_per_second(found).tolist() == pytest.approx([0.9, 0.9])


def test_subflows_of_one_connection_are_summed() -> None:
    flows = flows_frame(flow_row(0, "load", "cubic", end_s=2.0))
    one, two = cumulative(0, [1.0, 2.0], [10.0, 30.0]), cumulative(0, [1.0, 2.0], [100.0, 300.0])
    samples = pd.concat([one.assign(link="link1"), two.assign(link="link2")])
    assert rates.bytes_per_second(samples, flows)[0].tolist() == pytest.approx([110, 220])


def test_convergence_is_counted_from_the_youngest_start() -> None:
    flows = flows_frame(
        flow_row(0, "load", "cubic", end_s=20.0),
        flow_row(1, "load", "cubic", start_s=4.0, end_s=20.0),
    )
    per_second = pd.DataFrame(
        {
            0: [10.0] * 4 + [9.0] * 3 + [5.0] * 2 + [9.0] + [5.0] * 10,
            1: [math.nan] * 4 + [1.0] * 3 + [5.0] * 2 + [1.0] + [5.0] * 10,
        },
        index=[float(i) for i in range(20)],
    )
    # Fair at 7 and 8 only for two seconds; for good from 10 on, six seconds after the start.
    assert rates.convergence_s(per_second, flows) == pytest.approx(6)
    assert rates.convergence_s(per_second.iloc[:13], flows) is None
    assert rates.convergence_s(per_second[[0]], flows.iloc[:1]) is None


def test_max_min_share_describes_the_worst_served_flow() -> None:
    capacity = 10.0 * rates.PAYLOAD_SHARE
    flows = flows_frame(
        flow_row(0, "load", "cubic", end_s=8.0, bytes=round(capacity * 0.75 * 1e6)),
        flow_row(1, "load", "bbr", end_s=8.0, bytes=round(capacity * 0.25 * 1e6)),
    )
    assert rates.least_max_min_share(flows, IDEAL) == pytest.approx(0.5, rel=1e-6)


def test_queue_delay_is_backlog_over_rate() -> None:
    queues = pd.DataFrame({"t_s": [0.0, 1.0], "link": "bottleneck", "backlog_bytes": [0, 12_500]})
    assert delays.queue_delay_ms(queues, "bottleneck", 10.0).tolist() == pytest.approx([0, 10])


def test_percentiles_by_hand() -> None:
    found = delays.percentiles("x", [float(i) for i in range(101)])
    assert found == {"x_p50": 50, "x_p95": 95, "x_p99": 99}
    assert delays.percentiles("x", []) == {"x_p50": None, "x_p95": None, "x_p99": None}


def test_sockets_without_rtt_samples_are_ignored() -> None:
    assert delays.rtt_ms(pd.DataFrame({"srtt_us": [0, 40_000]})).tolist() == [40]


def test_slowdown_is_completion_time_over_the_ideal_time() -> None:
    flows = flows_frame(
        flow_row(0, "load", "cubic", bytes=12_500, fct_s=0.1),
        flow_row(1, "load", "cubic", bytes=125_000, fct_s=0.28),
        flow_row(2, "load", "cubic", bytes=500, fct_s=0.04),
        flow_row(3, "load", "cubic", bytes=500, fct_s=9.0, error="time-out"),
        flow_row(4, "other", "cubic", bytes=500, fct_s=0.04),
    )
    done = delays.slowdowns(flows, IDEAL)
    # Ideal: 40 ms + bytes · 8 / 10 Mbit/s.
    expected = [0.1 / 0.05, 0.28 / 0.14, 0.04 / 0.0404]
    assert done["slowdown"].tolist()[:3] == pytest.approx(expected)
    assert math.isnan(done["slowdown"].iloc[3]), "nothing is known of the other group's path"
    bins = {row["bin"]: row for row in delays.by_size(done)}
    assert list(bins) == ["<1 kB", "10–100 kB", "100 kB–1 MB"]
    assert bins["<1 kB"]["count"] == 2
    assert bins["10–100 kB"]["fct_slowdown_p95"] == pytest.approx(2)


@given(st.lists(POSITIVE, min_size=1, max_size=300))
def test_quantiles_keep_the_range_and_rise(values: list[float]) -> None:
    found = delays.quantiles(pd.Series(values))
    assert len(found) <= 101
    assert found == sorted(found)
    assert found[0] == pytest.approx(min(values))
    assert len(values) == 1 or found[-1] == pytest.approx(max(values))


def test_the_first_third_is_learning() -> None:
    assert rates.learned([float(i) for i in range(1, 76)]) == [float(i) for i in range(26, 76)]


def test_cell_metrics_match_the_synthetic_input(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", {"first": ["cubic"], "second": ["bbr"]})
    folder = write_pair(campaign, {"first": "cubic", "second": "bbr"}, share=0.75)
    found = cell_metrics(read_cell(folder))
    values = found["values"]
    assert values["jain"] == pytest.approx(0.8, abs=1e-3)
    assert values["jain_per_second"] == pytest.approx(0.8, abs=0.1)
    assert values["goodput_mbit"] == pytest.approx(20 * 1448 / 1514, rel=1e-3)
    assert values["utilisation"] == pytest.approx(1, rel=1e-3)
    assert values["max_min_share"] == pytest.approx(0.5, rel=1e-3)
    assert values["retransmit_ratio"] == pytest.approx(150 / 20_000)
    assert values["convergence_s"] is None
    assert found["groups"]["first"]["goodput_mbit"] == pytest.approx(15 * 1448 / 1514, rel=1e-3)
    assert found["algorithms"] == {"cubic": 1, "bbr": 1}
    assert len(found["jain_series"]) == SECONDS


def test_warm_up_counts_nowhere(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fairness", {"first": ["cubic"], "second": ["bbr"]})
    folder = write_pair(campaign, {"first": "cubic", "second": "bbr"}, share=0.75)
    flows = pd.read_parquet(folder / "flows.parquet")
    flows.loc[0, "warmup"] = True
    flows.to_parquet(folder / "flows.parquet")
    found = cell_metrics(read_cell(folder))
    assert list(found["groups"]) == ["second"]
    assert found["values"]["jain"] is None


def test_processor_time_is_busy_seconds_per_delivered_gbit(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "processor-before").write_text("cpu  100 0 100 1000 0 0 100 0 0 0\n")
    (folder / "processor-after").write_text("cpu  150 0 300 5000 0 20 130 7 0 0\n")
    spent = processor_s(folder)
    assert spent is not None and (spent["user"], spent["system"], spent["steal"]) == (0.5, 2, 0.07)
    flows = pd.DataFrame({"bytes": [10**9, 25 * 10**7]})
    assert _processor_of(spent, flows) == {"processor_s_per_gbit": pytest.approx(0.3)}
    assert processor_s(tmp_path) is None and _processor_of(None, flows) == {}
