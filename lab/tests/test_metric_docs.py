"""docs/use/laboratory-metrics.md has every metric, as the catalogue defines it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from synthetic import write_campaign, write_pair

from tcplab.catalogue import METRICS, metric, table
from tcplab.metrics.cell import cell_metrics
from tcplab.results.read import read_cell

DOCUMENT = Path(__file__).parents[2] / "docs" / "use" / "laboratory-metrics.md"
MARK = "<!-- written by: TCPLAB_RENEW=1 pytest lab/tests/test_metric_docs.py -->\n"


def test_the_document_has_the_catalogue() -> None:
    head, mark, written = DOCUMENT.read_text().partition(MARK)
    assert mark
    if os.environ.get("TCPLAB_RENEW"):
        written = f"\n{table()}\n"
        DOCUMENT.write_text(head + mark + written)
    assert written == f"\n{table()}\n"


def test_every_cell_metric_is_in_the_catalogue(tmp_path: Path) -> None:
    axes = {"first": ["cubic"], "second": ["bbr"]}
    campaign = write_campaign(tmp_path, "fairness", axes)
    folder = write_pair(campaign, {"first": "cubic", "second": "bbr"}, 0.5)
    found = cell_metrics(read_cell(folder))
    names = set(found["values"]) | {n for g in found["groups"].values() for n in g}
    assert names <= METRICS.keys()


@pytest.mark.parametrize("name", list(METRICS))
def test_a_metric_has_all_that_a_reader_needs(name: str) -> None:
    known = metric(f"{name}.first")
    assert known.name == name
    assert known.title
    assert known.definition
    assert known.source
