"""Colours and marks of axes: a meaningless difference looks like none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcplab.catalogue import METRICS
from tcplab.report.scale import scale, ticks

RTT = METRICS["rtt_ms_p50"]
"""Its floor is 0.2 ms."""


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("rtt_ms_p50", [21.2, 21.4]),
        ("connections_per_s", [1.0, 1.0]),
        ("retransmit_ratio", [0.00001, 0.0004]),  # by magnitude 40, and still below the floor
        ("goodput_mbit", []),
        ("goodput_mbit", [None, 9.5]),
    ],
)
def test_a_spread_below_the_floor_is_one_colour(metric: str, values: list[float | None]) -> None:
    assert scale(values, METRICS[metric])["alike"]


def test_small_spread_takes_small_part_of_colour_ramp() -> None:
    found = scale([21.2, 21.7], RTT)
    assert not found["alike"]
    share = (21.7 - 21.2) / (found["high"] - found["low"])
    assert share == pytest.approx(0.25)
    assert (found["least"], found["most"]) == (21.2, 21.7)


def test_a_great_spread_takes_the_whole_ramp() -> None:
    found = scale([20, 80, None], RTT)
    assert (found["low"], found["high"], found["by_magnitude"]) == (20, 80, False)
    assert scale([1, 80], RTT)["by_magnitude"]


def test_jain_index_keeps_its_full_scale() -> None:
    found = scale([0.9, 1.0], METRICS["jain"])
    assert (found["low"], found["high"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (21.2, 21.4, [21.2, 21.25, 21.3, 21.35, 21.4]),
        (30, 90, [30, 40, 50, 60, 70, 80, 90]),
        (4, 600, [5, 10, 20, 50, 100, 200, 500]),
        (0.5, 2e7, [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7]),
        (7, 7, [7]),
    ],
)
def test_marks_are_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@given(st.floats(1e-3, 1e6), st.floats(1.01, 1e5))
def test_every_axis_has_several_marks(low: float, factor: float) -> None:
    found = ticks(low, low * factor)
    assert 4 <= len(found) <= 13
    assert found == sorted(set(found))
    assert low * 0.999 <= found[0] and found[-1] <= low * factor * 1.001
