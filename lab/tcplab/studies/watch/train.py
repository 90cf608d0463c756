"""A forest of small trees over the features, as integers that the kernel walks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier

from tcplab.studies.watch import native
from tcplab.studies.watch.features import FEATURES, GROUP_OF, GROUPS
from tcplab.studies.watch.traces import Trace

FORMAT = 1
TREES = 32
LEAVES = 64
TRIED = 16
"""Features that a split is chosen among."""
EVERY = 3
"""Neighbouring rounds tell nearly the same: one of so many is taken."""
SKIP = 4
"""Rounds after slow start before the first sample, as the kernel waits (TP_FEW_ROUNDS)."""
_START_ROUNDS = FEATURES.index("start_rounds")


def samples(trace: Trace) -> npt.NDArray[np.int32]:
    """The rows of a flow to learn from: those behind its slow start."""
    first = int(trace.features[-1][_START_ROUNDS]) + SKIP
    return trace.features[first::EVERY]


@dataclass(frozen=True)
class Forest:
    """Trees over ranks: a feature's values by their order among those seen, so that a threshold is
    one of them, and not a fraction between two."""

    trees: RandomForestClassifier
    levels: list[npt.NDArray[np.int32]]
    """Each feature's values, ascending."""

    def ranks(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        columns = [np.searchsorted(level, rows[:, i]) for i, level in enumerate(self.levels)]
        return np.stack(columns, axis=1).astype(np.float32)


def fit(traces: Sequence[Trace], seed: int = 1) -> Forest:
    """Each group weighs the same, each algorithm in it, and each flow of that.  Flows that do by
    their law what another algorithm does are left out: they would teach that the two cannot be
    told apart."""
    traces = [t for t in traces if not t.is_twin]
    rows, labels, weights = [], [], []
    flows = Counter(t.algorithm for t in traces)
    algorithms = Counter(GROUP_OF[name] for name in flows)
    for trace in traces:
        found = samples(trace)
        rows.append(found)
        labels += [trace.algorithm] * len(found)
        alike = flows[trace.algorithm] * algorithms[trace.group]
        weights += [1 / alike / max(len(found), 1)] * len(found)
    trees = RandomForestClassifier(
        n_estimators=TREES,
        criterion="entropy",
        max_leaf_nodes=LEAVES,
        max_features=TRIED,
        random_state=seed,
        n_jobs=1,
    )
    scale = len(labels) / sum(weights)
    together = np.concatenate(rows)
    forest = Forest(trees, [np.unique(column) for column in together.T])
    trees.fit(forest.ranks(together), labels, sample_weight=np.array(weights) * scale)
    return forest


def as_json(forest: Forest) -> dict[str, Any]:
    """The model's file."""
    nodes: list[list[int]] = []
    leaves: list[list[int]] = []
    roots = []
    for estimator in forest.trees.estimators_:
        roots.append(len(nodes))
        _add_tree(estimator.tree_, forest.levels, nodes, leaves)
    return {
        "format": FORMAT,
        "features": list(FEATURES),
        "classes": [{"name": str(c), "group": GROUP_OF[str(c)]} for c in forest.trees.classes_],
        "roots": roots,
        "nodes": nodes,
        "leaves": leaves,
    }


def _add_tree(
    tree: Any,
    levels: Sequence[npt.NDArray[np.int32]],
    nodes: list[list[int]],
    leaves: list[list[int]],
) -> None:
    """Breadth first, so that the two children of a node lie side by side, behind it.  A rank above
    a threshold is a value above the one at the threshold's place."""
    waiting = [(0, len(nodes))]
    nodes.append([])
    while waiting:
        at, place = waiting.pop(0)
        if tree.children_left[at] < 0:
            share = tree.value[at][0] / tree.value[at][0].sum()
            nodes[place] = [-1, 0, len(leaves)]
            leaves.append([round(float(s) * 255) for s in share])
            continue
        child = len(nodes)
        nodes += [[], []]
        feature = int(tree.feature[at])
        threshold = int(levels[feature][int(np.floor(tree.threshold[at]))])
        nodes[place] = [feature, threshold, child]
        waiting += [(tree.children_left[at], child), (tree.children_right[at], child + 1)]


def in_kernel(model: dict[str, Any]) -> npt.NDArray[Any]:
    """A row of native.MODEL."""
    found = np.zeros(1, dtype=native.MODEL)
    row = found[0]
    row["trees"], row["classes"] = len(model["roots"]), len(model["classes"])
    row["root"][: len(model["roots"])] = model["roots"]
    for i, entry in enumerate(model["classes"]):
        row["group"][i] = GROUPS.index(entry["group"])
    for i, (feature, threshold, child) in enumerate(model["nodes"]):
        row["node"][i] = (threshold, child, max(feature, 0), feature < 0)
    for i, leaf in enumerate(model["leaves"]):
        row["leaf"][i][: len(leaf)] = leaf
    return found


def write(model: dict[str, Any], path: Path) -> None:
    """Rows on lines of their own, so that a difference can be read."""
    parts = [
        f' "{key}": {json.dumps(value)}'
        if key not in ("nodes", "leaves")
        else f' "{key}": [\n' + ",\n".join(_chunks(value)) + "\n ]"
        for key, value in model.items()
    ]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _chunks(rows: list[list[int]], width: int = 8) -> list[str]:
    texts = [json.dumps(row, separators=(",", ":")) for row in rows]
    return [",".join(texts[i : i + width]) for i in range(0, len(texts), width)]
