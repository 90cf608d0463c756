"""What features gain: by a model that asks for one of them alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcplab.studies.watch import gains
from tcplab.studies.watch.features import FEATURES
from tcplab.studies.watch.records import FLOWS, INTERVALS, ROUNDS, Flow
from tcplab.studies.watch.traces import Trace

ASKED, OTHER = FEATURES.index("flat"), FEATURES.index("backoffs")
MODEL: dict[str, Any] = {
    "classes": [{"name": "cubic", "group": "loss"}, {"name": "bbr", "group": "model"}],
    "roots": [0],
    "features": list(FEATURES),
    "nodes": [[ASKED, 50, 1], [-1, 0, 0], [-1, 0, 1]],
    "leaves": [[255, 0], [0, 255]],
}


def trace(algorithm: str, value: int) -> Trace:
    features = np.zeros((60, len(FEATURES)), dtype=np.int32)
    features[:, [ASKED, OTHER]] = value
    rounds = np.zeros(60, dtype=ROUNDS)
    flow = Flow(np.zeros(1, dtype=FLOWS)[0], rounds, np.zeros(0, dtype=INTERVALS))
    return Trace(algorithm, "a path", "a cell", flow, features)


def test_only_the_asked_feature_gains() -> None:
    flows = [trace("cubic", 10), trace("bbr", 90)] * 20
    found, told = gains.gains([flows, flows[:20]], MODEL)
    assert told == "60 flows: groups 100.0%, names 100.0%"
    by_name = {gain.feature: gain for gain in found}
    assert found[0].feature == "flat" and by_name["flat"].groups > 0.2
    assert by_name["backoffs"].groups == 0 == by_name["backoffs"].names
    assert gains.table(found).splitlines()[2].startswith("| `flat` | +")


def test_each_campaign_is_a_set() -> None:
    one, two = trace("cubic", 1), trace("bbr", 2)
    assert gains.by_campaign(["a", "b", "a"], [one, two, two]) == [[one, two], [two]]
