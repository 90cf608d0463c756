"""The figures of the effect: intervals from sums, the truth from runs, and the page's tables."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tcplab.studies.effect import figures, tables
from tcplab.studies.effect.interval import half_width, interval, merged, moments
from tcplab.studies.effect.tables import Interval


@pytest.mark.parametrize(
    ("count", "theirs"),
    [(20, 0.962890), (100, 0.316840), (300, 0.175238), (1000, 0.098263), (6000, 0.043079)],
)
def test_the_width_is_that_of_confseq(count: int, theirs: float) -> None:
    """As in crates/proof/src/sequence.rs: normal_mixture_bound of confseq 0.0.11."""
    assert half_width(count) == pytest.approx(theirs, abs=1e-6)


def sums(pairs: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "count": len(pairs),
        "sum": sum(d for d, _ in pairs),
        "square": sum(d * d for d, _ in pairs),
        "covariate": sum(x for _, x in pairs),
        "covariate_square": sum(x * x for _, x in pairs),
        "product": sum(d * x for d, x in pairs),
    }


def test_sums_of_several_runs_are_those_of_one() -> None:
    draw = np.random.default_rng(1)
    pairs = [(float(d), float(x)) for d, x in draw.normal(0.1, 0.2, (60, 2)) - (0, 0.1)]
    both = merged([sums(pairs[:25]), sums(pairs[25:])])
    assert moments(both) == pytest.approx(moments(sums(pairs)))
    found = interval(both)
    assert found is not None and found.low < found.estimate < found.high
    assert interval(sums(pairs[:19])) is None


def test_only_covariates_unchanged_by_steering_are_adjusted_for() -> None:
    luck = [0.1 if i % 2 else -0.1 for i in range(40)]
    mean, sd = moments(sums([(0.3 + 2 * x, x) for x in luck]))
    assert mean == pytest.approx(0.3) and sd < 1e-6
    mean, sd = moments(sums([(0.3 + 2 * x, x - 1) for x in luck]))
    assert mean == pytest.approx(0.3) and sd == pytest.approx(0.2, rel=0.05)


def flows() -> pd.DataFrame:
    """Three connections in each slice of a minute; one broke off."""
    starts = [20.0 * s + n for s in range(4) for n in range(3)]
    table = pd.DataFrame(
        {
            "start_s": starts,
            "cc_used": "cubic",
            "bytes": 1_000_000,
            "busy_s": [1.0 + (s >= 40) for s in starts],
            "fct_s": 2.0,
            "retransmitted_packets": 7,
            "sent_packets": 700,
            "error": None,
            "prefix": None,
        }
    )
    table.loc[4, "error"] = "reset"
    return table


def test_slice_means_exclude_first_slice_and_broken_connections() -> None:
    counted = figures.counted(flows())
    assert len(counted) == 8
    mean, error = figures.sliced(counted, "goodput")
    # A slice of two connections has no mean.
    assert mean == pytest.approx(log(1e6 / 2)) and error == pytest.approx(0.0)


def record(variant: str, goodput: float, report: dict[str, Any] | None = None) -> dict[str, Any]:
    means = {"goodput": [goodput, 0.01], "duration": [-goodput, 0.01], "mbytes": 10.0}
    own: dict[str, Any] = {"all": means, "means": {"cubic": means, "bbr": means}}
    if report:
        own["report"] = report
    labels = {"condition": "takes", "variant": variant}
    return {"campaign": "effect", "place": "machine", "labels": labels, "figures": own}


def test_the_truth_is_the_difference_of_two_runs() -> None:
    runs = [record("all-first", 1.0), record("all-second", 1.2)]
    found = tables.truth(runs, "effect", "goodput", condition="takes")
    assert found is not None and found.estimate == pytest.approx(0.2)
    assert found.high - found.estimate == pytest.approx(1.96 * 0.01 * 2**0.5)
    assert tables.truth(runs[:1], "effect", "goodput", condition="takes") is None


def test_renewal_replaces_tables_and_keeps_other_text() -> None:
    swings = [(0.05 if i % 2 else -0.05, 0.0) for i in range(40)]
    measure = {"verdict": "not shown", "sums": sums(swings)}
    report = {"measures": {"goodput": measure}}
    page = "before\n<!-- table: lab-trap machine -->\nold\n<!-- end -->\nafter\n"
    page += "<!-- table: coverage -->\nkept\n<!-- end -->\n"
    found = tables.renewed(page, [record("report", 1.0, report)])
    assert "old" not in found and "kept" in found and found.startswith("before\n")
    assert "40 pairs | not shown |" in found and "few: +150 %" in found


def test_a_verdict_is_of_the_whole_interval() -> None:
    assert tables.verdict(Interval(0.1, 0.01, 0.2), less_is_better=False) == "better"
    assert tables.verdict(Interval(0.1, 0.01, 0.2), less_is_better=True) == "worse"
    assert tables.verdict(Interval(0.01, -0.03, 0.05), less_is_better=False) == "not shown"
    wide = Interval(0.1, -0.01, 0.2)
    assert tables.verdict(wide, less_is_better=False) == "insufficient data"
    assert tables.verdict(None, less_is_better=False) == "insufficient data"
