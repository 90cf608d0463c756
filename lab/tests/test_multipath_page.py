"""docs/measured/multipath.md has the tables of its published records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pandas as pd
from synthetic import write_campaign, write_pair

from tcplab.results.read import read_campaign
from tcplab.studies import cells
from tcplab.studies.multipath import records, tables


def test_repetitions_show_median_range_and_count() -> None:
    assert tables.shown([3, 1, None, 2]) == "2.00 (1.00 to 3.00; 3)"
    assert tables.shown([0.5], 1) == "0.5"
    assert tables.shown([None]) == "–"


def test_window_reductions_count_all_paths_after_slow_start() -> None:
    class Run:
        def flows(self) -> pd.DataFrame:
            return pd.DataFrame({"flow": [0, 1], "group": ["multipath", "single"]})

        def samples(self) -> pd.DataFrame:
            # Each path sends 100 packets a second; the paths' thresholds change twice, and once.
            thresholds = {(0, "a"): [9, 9, 8, 7], (0, "b"): [9, 9, 9, 8], (1, None): [9, 8, 7, 6]}
            return pd.DataFrame(
                {"t_s": 4.0 + i, "flow": flow, "link": link, "ssthresh_packets": threshold}
                | {"sent_packets": 100 * i}
                for (flow, link), found in thresholds.items()
                for i, threshold in enumerate(found)
            )

    # The first second is before slow start's end: 100 packets remain on each path.
    between = records.between_cuts(cast(Any, Run()))
    assert between == {"multipath": 200 / 2, "single": 100 / 1}
    assert tables._expected({"between_cuts": {"multipath": 400.0, "single": 100.0}}) == 2 / 3
    assert tables._expected({}) is None


def test_a_record_has_the_parts_of_the_connection(tmp_path: Path) -> None:
    axes = {"first": ["cubic"], "second": ["bbr"]}
    campaign = write_campaign(tmp_path, "path-shared", axes)
    write_pair(campaign, {"first": "cubic", "second": "bbr"}, 0.5)
    (record,) = records.of_campaign(read_campaign(campaign))
    assert record["campaign"] == "path-shared" and record["commit"] == "0123456789"
    assert record["parts"]["first"]["goodput_mbit"] > 0
    key = cells.key(record)
    cells.save(tmp_path / "kept.jsonl", {key: record})
    assert cells.load(tmp_path / "kept.jsonl") == {key: record}
