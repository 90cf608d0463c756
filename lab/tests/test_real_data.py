"""A real campaign (data/pairs: cubic and bbr, 5 Mbit/s, 6.12 in virtual time).

Its stored figures follow from its samples; TCPLAB_RENEW=1 renews them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from flent import resultset

from tcplab.diff import compare
from tcplab.export import write_flent
from tcplab.metrics import cell_metrics, summarise, write_cell, write_summary
from tcplab.metrics.rates import PAYLOAD_SHARE
from tcplab.report.page import render
from tcplab.results.read import Cell, read_campaign

CAMPAIGN = read_campaign(Path(__file__).parent / "data" / "pairs")
CELLS = list(CAMPAIGN.cells())
USABLE = 5 * PAYLOAD_SHARE


def alike(found: Any, stored: Any) -> bool:
    """Equal but for the last digits of numbers."""
    if isinstance(found, dict):
        return found.keys() == stored.keys() and all(alike(found[k], stored[k]) for k in found)
    if isinstance(found, list):
        return len(found) == len(stored) and all(map(alike, found, stored))
    if isinstance(found, float):
        return stored is not None and found == pytest.approx(stored, rel=1e-4)
    return bool(found == stored)


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: c.id)
def test_metrics_of_a_real_cell_are_as_stored(cell: Cell) -> None:
    if os.environ.get("TCPLAB_RENEW"):
        write_cell(cell.folder)
    assert alike(cell_metrics(cell), json.loads((cell.folder / "metrics.json").read_text()))


def test_summary_of_a_real_campaign_is_as_stored() -> None:
    if os.environ.get("TCPLAB_RENEW"):
        write_summary(CAMPAIGN.folder)
    stored = CAMPAIGN.summary()
    assert alike(summarise(CAMPAIGN), stored)
    assert stored is not None
    assert len(stored["points"]) == 5
    assert all(p["ok"] == 2 for p in stored["points"])


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: c.id)
def test_measured_figures_are_consistent_with_the_link(cell: Cell) -> None:
    """Figures from three sources, sockets, receiver and queue, agree with one another."""
    found = cell_metrics(cell)
    values, groups = found["values"], found["groups"]
    assert values["goodput_mbit"] == pytest.approx(USABLE, rel=0.03)
    assert values["goodput_mbit"] <= USABLE * 1.01
    assert 0.97 <= values["utilisation"] <= 1.02
    assert sum(g["goodput_mbit"] for g in groups.values()) == pytest.approx(
        values["goodput_mbit"], rel=0.01
    )
    # An empty path has 20 ms; the queue's delay comes on top, and the sockets see both.
    assert values["rtt_ms_p50"] == pytest.approx(20 + values["queue_delay_ms_p50"], rel=0.15)
    assert set(found["algorithms"]) == {v for v in cell.labels.values() if v != "none"}


def test_a_campaign_does_not_differ_from_itself() -> None:
    summary = summarise(CAMPAIGN)
    assert compare(summary, summary).same


def test_flent_loads_real_cells(tmp_path: Path) -> None:
    for cell in CELLS:
        file = write_flent(CAMPAIGN, cell, tmp_path)
        assert file is not None
        found: Any = resultset.load(str(file))
        total = [v for v in found.series("TCP upload sum") if v is not None]
        assert sum(total) / len(total) == pytest.approx(USABLE, rel=0.06)


def test_the_page_of_a_real_campaign_is_small() -> None:
    page = render(CAMPAIGN)
    assert len(page) < 5_500_000
    assert "tcplab run pairs.toml" in page
    assert "6.12" in page
