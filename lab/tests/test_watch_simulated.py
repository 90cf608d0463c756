"""Flows simulated by their laws, for the model of `tcpilot watch`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcplab.studies.watch import judge, simulated, train
from tcplab.studies.watch.features import FEATURES
from tcplab.studies.watch.simulated import FRAME, LAWS, Bottleneck
from tcplab.studies.watch.traces import Trace

PATH = Bottleneck(rate_mbit=20, rtt_ms=40, queue_bdp=1, seconds=30)


def test_laws_match_the_compiled_library_in_order() -> None:
    names = [simulated.library().simulate_law(i) for i in range(len(LAWS) + 1)]
    assert names.pop() is None
    assert [{"hstcp": "highspeed"}.get(n, n) for n in (n.decode() for n in names)] == list(LAWS)


@pytest.mark.parametrize("algorithm", LAWS)
def test_each_law_fills_the_link_and_no_more(algorithm: str) -> None:
    (flow,) = simulated.run(PATH, [algorithm])
    share = flow.delivered * FRAME * 8 / (PATH.rate_mbit * 1e6 * PATH.seconds)
    assert 0.85 < share <= 1


@pytest.mark.parametrize("algorithm", LAWS)
def test_dropped_packets_are_retransmitted(algorithm: str) -> None:
    mix = [algorithm, "cubic", "reno"]
    flow = simulated.run(PATH, mix)[0]
    dropped, again = (int(flow.rounds[n].sum()) for n in ("dropped_packets", "again_packets"))
    # A drop counts when a later packet comes out, and the last ones may be under way.
    assert dropped > 0
    assert abs(again - dropped) <= max(dropped // 20, 8)


def test_reno_halves_and_grows_one_packet_per_round() -> None:
    (flow,) = simulated.run(Bottleneck(10, 50, 1, 60), ["reno"])
    window = flow.rounds["flight_max_bytes"] / 1448
    lossy = np.flatnonzero(flow.rounds["again_packets"])
    events = lossy[np.insert(np.diff(lossy) > 3, 0, True)][2:6]
    for at in events:
        assert 0.4 < window[at + 6] / window[at - 2] < 0.62
    growth = np.diff(window[events[0] + 8 : events[1] - 3])
    assert 0.85 < growth.mean() < 1.1


@pytest.mark.parametrize("before", [0.5, 0.98])
def test_a_window_is_whole_wherever_the_delay_lies(before: float) -> None:
    """The least window in each quarter of the rounds, over the one with all delay behind."""

    def lows(share: float, algorithm: str) -> list[float]:
        path = Bottleneck(20, 60, 0.6, 60, up_share=share)
        (flow,) = simulated.run(path, [algorithm])
        windows = flow.rounds["flight_max_bytes"][40:] / 1448
        return [float(part.min()) for part in np.array_split(windows, 4)]

    for algorithm in ("reno", "cubic"):
        for found, behind in zip(lows(before, algorithm), lows(0, algorithm), strict=True):
            assert 0.85 < found / behind < 1.15, algorithm


@pytest.mark.parametrize("super_packets", [1, 44])
@pytest.mark.parametrize("before", [0.5, 0.98])
def test_a_rounds_largest_window_is_seen_from_anywhere(before: float, super_packets: int) -> None:
    """Windows are largest in the rounds of a loss, and change within them."""

    def most(share: float, algorithm: str) -> float:
        path = Bottleneck(20, 60, 1, 30, up_share=share, super_packets=super_packets)
        (flow,) = simulated.run(path, [algorithm])
        return float(flow.rounds["flight_max_bytes"][30:].max())

    for algorithm in ("reno", "cubic"):
        assert 0.97 < most(before, algorithm) / most(0, algorithm) < 1.03, algorithm


def test_bbr_drains_the_path_every_ten_seconds() -> None:
    (flow,) = simulated.run(Bottleneck(20, 40, 2, 45), ["bbr"])
    low = np.flatnonzero(flow.rounds["flight_max_bytes"] <= 5 * 1448)
    times = flow.rounds["end_ns"][low] / 1e9
    falls = times[np.insert(np.diff(times) > 2, 0, True)]
    assert len(falls) >= 3
    assert all(9 < gap < 12 for gap in np.diff(falls))


def test_rounds_repeat_with_the_same_seed_only() -> None:
    one, again, other = (simulated.run(PATH, ["cubic", "bbr"], seed) for seed in (1, 1, 2))
    assert [f.rounds.tobytes() for f in one] == [f.rounds.tobytes() for f in again]
    assert one[1].rounds.tobytes() != other[1].rounds.tobytes()


@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(0, 4),
    rtt=st.floats(-0.5, 2.48),
    queue=st.floats(-0.7, 0.9),
    flows=st.integers(1, 8),
    burst=st.sampled_from((1, 44)),
    loss=st.sampled_from((0.0, 0.1)),
)
def test_flows_respect_link_bounds_over_whole_range(
    rate: float, rtt: float, queue: float, flows: int, burst: int, loss: float
) -> None:
    path = Bottleneck(10**rate, 10**rtt, 10**queue, 4, super_packets=burst, loss_percent=loss)
    mix = [LAWS[(flows + i) % len(LAWS)] for i in range(flows)]
    found = simulated.run(path, mix)
    most = path.rate_mbit * 1e6 / 8 / FRAME * path.seconds
    assert 0 < sum(flow.delivered for flow in found) <= most + burst
    # A burst may wait for a full queue, and be sent behind it.
    longest_us = (path.queue_packets + burst) * FRAME * 8 / path.rate_mbit
    for flow in found:
        assert (flow.rounds["sojourn_max_us"] <= longest_us + 1).all()
        assert (flow.rounds["rtt_us"] >= int(path.rtt_ms * 1e3)).all()
        assert (flow.rounds["sojourn_min_us"] <= flow.rounds["sojourn_mean_us"] + 1).all()


def test_paths_span_all_rates_and_mixes_all_algorithms() -> None:
    paths = simulated.bottlenecks(200, 1)
    assert min(p.rate_mbit for p in paths) < 3
    assert max(p.rate_mbit for p in paths) > 3000
    assert all(p.super_packets > 1 for p in paths if p.rate_mbit >= 200)
    for count in simulated.FLOWS:
        mixes = simulated.mixes(count, 3)
        assert {len(mix) for mix in mixes} == {count}
        assert {name for mix in mixes for name in mix} == set(LAWS)


def test_simulated_flows_are_recordings_like_others() -> None:
    found: list[Trace] = simulated.traces(PATH, ["reno", "vegas"])
    assert [t.algorithm for t in found] == ["reno", "vegas"]
    assert {t.path for t in found} == {"20 Mbit/s, 40 ms, 1 bdp, simulated, 2 flows"}
    assert [t.features.shape[0] for t in found] == [len(t.flow.rounds) for t in found]


def test_simulated_model_decides_beyond_the_recorded_rates() -> None:
    def of(mbit: float) -> list[Trace]:
        path = Bottleneck(mbit, 30, 1, 20)
        return [t for name in ("reno", "vegas") for t in simulated.traces(path, [name])]

    near, far = of(10), of(1000)
    forest = train.fit(train.table(near))
    extrapolation = train.extrapolation(train.table(near), far)
    assert extrapolation.range == forest.range
    one, beyond = train.as_json(forest), train.as_json(extrapolation)
    liar = dict(one, classes=[{"name": c["name"], "group": "model"} for c in one["classes"]])
    for flows, is_beyond in ((near, False), (far, True)):
        found = judge.by_finished(flows, liar if is_beyond else one, extrapolation=beyond)
        assert [o.group for o in found] == ["loss", "delay"]
        assert all((o.sure <= 0.5) == is_beyond for o in found)


@pytest.mark.parametrize("super_packets", [1, 16])
def test_a_share_measured_too_long_lets_no_steady_window_fall(super_packets: int) -> None:
    """Looked at a millisecond late, windows had packets in them that answer later
    acknowledgements, and in the next round they seemed to fall without a loss."""
    path = Bottleneck(31, 67, 1.5, 30, up_share=0.5, super_packets=super_packets, share_late_ms=1.0)
    flows = simulated.traces(path, ["reno", "cubic", "bic", "reno"])
    falls = [flow.features[-60:, FEATURES.index("backoffs")].mean() for flow in flows]
    assert max(falls) < 1, falls
