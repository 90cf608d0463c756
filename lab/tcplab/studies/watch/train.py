"""A forest of small trees over the features, as integers for the kernel."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from tcplab.studies.watch import native
from tcplab.studies.watch.features import FEATURES, GROUP_OF, GROUPS
from tcplab.studies.watch.traces import SPARSE, Trace

FORMAT = 1
COLUMNS = 2
"""The same model in columns."""
TREES = 32
LEAVES = 1024
SEED = 5
"""Seed of the model of recordings: the best of 1 to 5 on the paths of watch-queues-wide-test."""
TRIED = 32
"""Candidate features of a split."""
DEPTH = 16
"""The kernel walks no further down (TP_TREE_DEPTH)."""
EVERY = 3
"""Neighbouring rounds are nearly alike: one of so many is taken."""
ROWS = 80
"""At most so many rows of a flow: a flow with short round trips has thousands of rounds."""
EARLY = 40
"""So many of these rows are consecutive, from the flow's start."""
ALIKE = 4
"""At most so many flows of an algorithm in a cell teach: they are nearly alike."""
GROUPS_ALIKE = 0.4
"""1: each group weighs the same; 0: each algorithm does."""
SLACK = 0.25
"""A path within this share beyond the training range still counts as inside."""
SKIP = 4
"""Rounds after slow start before the first sample, as the kernel waits (TP_FEW_ROUNDS)."""
LEVELS = 64
"""Most values of a feature in training: the kept rows are small, the trees no worse."""
MEASURES = ("path_rtt_us", "path_rate", "path_queue_of_rtt")
ABOUT = ("campaign", "path", "label", "flow", *MEASURES)
"""Columns of a table besides the features."""
OF_TCP = ("resent_share", "lost_elsewhere", "ect_syn", "marked", "sent_of_acked")
"""Features from TCP's header: QUIC's trees do not ask for them."""


def samples(trace: Trace) -> npt.NDArray[np.int32]:
    """The rows of a flow to learn from: those behind its slow start."""
    first = native.slow_start_rounds(trace.flow.rounds) + SKIP
    rows: npt.NDArray[np.int32] = trace.features[first::EVERY]
    if len(rows) <= ROWS:
        return rows
    late = np.linspace(EARLY, len(rows) - 1, ROWS - EARLY).astype(int)
    chosen: npt.NDArray[np.int32] = rows[np.concatenate([np.arange(EARLY), late])]
    return chosen


def table(traces: Sequence[Trace], campaigns: Sequence[str] = ()) -> pd.DataFrame:
    """A row for each sample: ABOUT, and the features, of LEVELS values each.
    Flows following another algorithm's law are left out: they would make the two algorithms
    indistinguishable.  So are sparse flows: the rules recognise these."""
    parts = []
    taken: Counter[tuple[str, str, str]] = Counter()
    for place, trace in enumerate(traces):
        if trace.is_twin or trace.is_reno or trace.kind == SPARSE:
            continue
        alike = trace.path, trace.cell, trace.algorithm
        taken[alike] += 1
        if taken[alike] > ALIKE:
            continue
        rows = samples(trace)
        part = pd.DataFrame(rows, columns=list(FEATURES))
        campaign = campaigns[place] if campaigns else ""
        values = (campaign, trace.path, trace.label, place, *_measures(trace.flow.rounds[-1]))
        about: dict[str, Any] = dict(zip(ABOUT, values, strict=True))
        parts.append(part.assign(**about))
    return coarse(pd.concat(parts, ignore_index=True))


def coarse(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows with LEVELS values of each feature."""
    return rows.assign(**{name: _coarse(rows[name].to_numpy()) for name in FEATURES})


def together(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables under each other; each counts its flows from 0."""
    parts, first = [], 0
    for rows in tables:
        parts.append(rows.assign(flow=rows["flow"] + first))
        first += int(rows["flow"].max()) + 1
    return pd.concat(parts, ignore_index=True)


def _coarse(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Each value as the largest level not above it: more levels do not help the trees."""
    steps = np.quantile(values, np.linspace(0, 1, LEVELS + 1), method="lower")
    levels = np.unique(steps.astype(np.int32))
    found: npt.NDArray[np.int32] = levels[np.searchsorted(levels, values, side="right") - 1]
    return found


def _measures(row: Any) -> tuple[int, ...]:
    """The measures of a path (enum tp_range_of), at a flow's end."""
    rtt_us = int(row["min_rtt_us"])
    return rtt_us, int(row["link_rate"]), int(row["link_queue_us"]) * 256 // max(rtt_us, 1)


def path_of(rows: pd.DataFrame) -> list[list[int]]:
    """The least and the most of each measure of a path, with some slack."""
    return [
        [int(rows[name].min() * (1 - SLACK)), int(rows[name].max() * (1 + SLACK))]
        for name in MEASURES
    ]


@dataclass(frozen=True)
class Forest:
    """Trees over ranks: a feature's values by their order among the seen ones.  A threshold is then
    one of these values, and not a fraction between two."""

    trees: RandomForestClassifier
    columns: list[int]
    """Its features, by their places among all."""
    levels: list[npt.NDArray[np.int32]]
    """Each of these features' values, ascending."""
    range: list[list[int]]
    """The range of the paths (path_of)."""

    def ranks(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        pairs = zip(self.columns, self.levels, strict=True)
        columns = [np.searchsorted(level, rows[:, i]) for i, level in pairs]
        return np.stack(columns, axis=1).astype(np.float32)


def asked(of_quic: bool) -> list[int]:
    """The features open to the trees of QUIC, or of TCP, by their places."""
    unasked = OF_TCP if of_quic else ()
    return [i for i, name in enumerate(FEATURES) if name not in unasked]


def fit(rows: pd.DataFrame, of_quic: bool = False, seed: int = 1) -> Forest:
    """Groups and algorithms weigh as GROUPS_ALIKE says, and each flow of an algorithm the same."""
    flows = Counter(rows.groupby("flow")["label"].first())
    of_flow = rows.groupby("flow")["label"].transform("size")
    alike = rows["label"].map({name: flows[name] * _share_of(name, flows) for name in flows})
    weights = (1 / alike / of_flow).to_numpy(copy=True)
    trees = RandomForestClassifier(
        n_estimators=TREES,
        criterion="entropy",
        max_leaf_nodes=LEAVES,
        max_depth=DEPTH,
        max_features=TRIED,
        random_state=seed,
        n_jobs=1,
    )
    columns = asked(of_quic)
    features = np.zeros((len(rows), len(FEATURES)), dtype=np.int32)
    for i in columns:
        features[:, i] = rows[FEATURES[i]]
    levels = [np.unique(features[:, i]) for i in columns]
    forest = Forest(trees, columns, levels, path_of(rows))
    weights *= len(rows) / weights.sum()
    trees.fit(forest.ranks(features), rows["label"].to_numpy(str), sample_weight=weights)
    return forest


def _share_of(label: str, labels: Iterable[str]) -> float:
    """The divisor of the weight of each algorithm of a group."""
    group = sum(GROUP_OF[name] == GROUP_OF[label] for name in labels)
    return float(group**GROUPS_ALIKE)


def extrapolation(rows: pd.DataFrame, simulated: Sequence[Trace]) -> Forest:
    """The trees for paths beyond the recorded ones: from these rows, and from simulated flows.  The
    range is the one of the recordings, since these trees are asked beyond it."""
    forest = fit(together([rows, table(simulated)]))
    return replace(forest, range=path_of(rows))


def as_json(forest: Forest) -> dict[str, Any]:
    """The model's file."""
    nodes: list[list[int]] = []
    leaves: list[list[int]] = []
    roots = []
    for estimator in forest.trees.estimators_:
        roots.append(len(nodes))
        _add_tree(estimator.tree_, forest, nodes, leaves)
    return {
        "format": FORMAT,
        "features": list(FEATURES),
        "classes": [{"name": str(c), "group": GROUP_OF[str(c)]} for c in forest.trees.classes_],
        "range": forest.range,
        "roots": roots,
        "nodes": nodes,
        "leaves": leaves,
    }


def _add_tree(
    tree: Any,
    forest: Forest,
    nodes: list[list[int]],
    leaves: list[list[int]],
) -> None:
    """Breadth first: the two children of a node lie side by side, behind it.  A rank above a
    threshold is a value above the one at the threshold's place."""
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
        asked = int(tree.feature[at])
        threshold = int(forest.levels[asked][int(np.floor(tree.threshold[at]))])
        nodes[place] = [forest.columns[asked], threshold, child]
        waiting += [(tree.children_left[at], child), (tree.children_right[at], child + 1)]


def in_kernel(model: dict[str, Any]) -> npt.NDArray[Any]:
    """A row of native.MODEL.  Its features have their places by name, as FEATURES has them."""
    places = [FEATURES.index(name) if name in FEATURES else None for name in model["features"]]
    found = np.zeros(1, dtype=native.MODEL)
    row = found[0]
    row["trees"], row["classes"] = len(model["roots"]), len(model["classes"])
    row["root"][: len(model["roots"])] = model["roots"]
    for i, bounds in enumerate(model.get("range", [])):
        row["range"][i] = tuple(bounds)
    for i, entry in enumerate(model["classes"]):
        row["group"][i] = GROUPS.index(entry["group"])
    for i, (feature, threshold, child) in enumerate(model["nodes"]):
        place = 0 if feature < 0 else places[feature]
        if place is None:
            raise ValueError(f"the model asks for {model['features'][feature]}, which is unknown")
        row["node"][i] = (threshold, child, place, feature < 0)
    for i, leaf in enumerate(model["leaves"]):
        row["leaf"][i][: len(leaf)] = leaf
    return found


def write(model: dict[str, Any], path: Path) -> None:
    """As text, or, if the name ends so, in columns and compressed by gzip: a sixth of its size."""
    if path.suffix == ".gz":
        packed = json.dumps(_columns(model), separators=(",", ":"))
        path.write_bytes(gzip.compress(packed.encode(), 9, mtime=0))
    else:
        path.write_text(text(model))


def read(path: Path) -> dict[str, Any]:
    """The inverse of `write`."""
    raw = path.read_bytes()
    model = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return _rows(model) if "columns" in model else dict(model)


def _columns(model: dict[str, Any]) -> dict[str, Any]:
    """The same model without the indices of children, since they follow from the order of the
    nodes."""
    nodes = model["nodes"]
    columns = {
        "asked": [feature for feature, _, _ in nodes],
        "above": [threshold for feature, threshold, _ in nodes if feature >= 0],
        "shares": list(zip(*model["leaves"], strict=True)),
    }
    about = {key: value for key, value in model.items() if key not in ("nodes", "leaves")}
    return about | {"format": COLUMNS, "columns": columns}


def _rows(model: dict[str, Any]) -> dict[str, Any]:
    columns = model["columns"]
    above, leaves, roots = iter(columns["above"]), itertools.count(), set(model["roots"])
    nodes, child = [], 0
    for at, feature in enumerate(columns["asked"]):
        child = at + 1 if at in roots else child
        nodes.append([feature, 0, next(leaves)] if feature < 0 else [feature, next(above), child])
        child += 0 if feature < 0 else 2
    shares = [list(leaf) for leaf in zip(*columns["shares"], strict=True)]
    about = {key: value for key, value in model.items() if key != "columns"}
    return about | {"format": FORMAT, "nodes": nodes, "leaves": shares}


def text(model: dict[str, Any]) -> str:
    """Rows on lines of their own, for readable differences."""
    parts = [
        f' "{key}": {json.dumps(value)}'
        if key not in ("nodes", "leaves")
        else f' "{key}": [\n' + ",\n".join(_chunks(value)) + "\n ]"
        for key, value in model.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _chunks(rows: list[list[int]], width: int = 8) -> list[str]:
    texts = [json.dumps(row, separators=(",", ":")) for row in rows]
    return [",".join(texts[i : i + width]) for i in range(0, len(texts), width)]
