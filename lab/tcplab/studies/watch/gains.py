"""What each feature gains: verdicts on flows kept apart, if a feature's values were another flow's.

The forest is not trained again.  A feature's values are dealt anew among all sampled rounds
(Breiman 2001), which takes away what it says and leaves its distribution.  So a feature counts for
nothing if others say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tcplab.studies.watch import native, train
from tcplab.studies.watch.features import FEATURES, GROUP_OF, GROUPS
from tcplab.studies.watch.judge import LATER
from tcplab.studies.watch.records import Table
from tcplab.studies.watch.traces import BULK, Trace

SAMPLES = 12
"""Rounds of a flow."""
TIMES = 3
"""How often values are dealt."""
SEED = 1


@dataclass(frozen=True)
class Gain:
    """Share of the flows that a feature puts right."""

    feature: str
    groups: float
    names: float
    least_groups: float
    """In the set in which it gains least."""


@dataclass(frozen=True)
class Rounds:
    """Sampled rounds of flows."""

    features: npt.NDArray[np.int32]
    flow: npt.NDArray[np.int64]
    """The flow of each."""
    wanted: npt.NDArray[np.int64]
    """The class of each flow."""


def sampled(traces: Sequence[Trace], names: Sequence[str]) -> Rounds:
    """Of bulk flows with a law of their own, from the round on in which they ought to be known."""
    fit = [t for t in traces if t.kind == BULK and not t.is_twin and not t.is_reno]
    fit = [t for t in fit if t.algorithm in names and len(t.features) > LATER + SAMPLES]
    rows = [
        t.features[np.linspace(LATER, len(t.features) - 1, SAMPLES).astype(np.int64)] for t in fit
    ]
    return Rounds(
        np.concatenate(rows),
        np.repeat(np.arange(len(fit)), SAMPLES),
        np.array([names.index(t.algorithm) for t in fit]),
    )


class Judge:
    """Flows by the mean of their rounds' votes, with a finished forest."""

    def __init__(self, model: dict[str, object]) -> None:
        self.model: Table = train.in_kernel(model)
        self.names = [str(c["name"]) for c in model["classes"]]  # type: ignore[attr-defined]
        groups = [GROUPS.index(GROUP_OF[name]) for name in self.names]
        self.in_group = np.eye(len(GROUPS))[groups]

    def right(self, of: Rounds, features: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """For each flow whether its group is right, and whether its name is."""
        votes = native.votes(features, self.model)[:, : len(self.names)].astype(np.float64)
        mean = votes.reshape(len(of.wanted), SAMPLES, -1).mean(axis=1)
        groups = mean @ self.in_group
        wanted = self.in_group[of.wanted].argmax(axis=1)
        return np.stack([groups.argmax(axis=1) == wanted, mean.argmax(axis=1) == of.wanted], axis=1)


def gains(sets: Sequence[Sequence[Trace]], model: dict[str, object]) -> tuple[list[Gain], str]:
    """The gain of each feature asked by the trees, the greatest first; and the shares with all."""
    judge, draw = Judge(model), np.random.default_rng(SEED)
    rounds = [sampled(one, judge.names) for one in sets]
    whole = [judge.right(one, one.features) for one in rounds]
    found = []
    for index in range(len(FEATURES)):
        lost = [np.mean([_without(judge, r, index, draw) for _ in range(TIMES)], 0) for r in rounds]
        gained = [w - one for w, one in zip(whole, lost, strict=True)]
        both = np.concatenate(gained).mean(axis=0)
        least = min(float(one[:, 0].mean()) for one in gained)
        found.append(Gain(FEATURES[index], float(both[0]), float(both[1]), least))
    right = np.concatenate(whole)
    told = f"{len(right)} flows: groups {right[:, 0].mean():.1%}, names {right[:, 1].mean():.1%}"
    return sorted(found, key=lambda gain: -gain.groups - gain.names), told


def _without(
    judge: Judge, of: Rounds, index: int, draw: np.random.Generator
) -> npt.NDArray[np.bool_]:
    features = of.features.copy()
    features[:, index] = draw.permutation(features[:, index])
    return judge.right(of, features)


def by_campaign(campaigns: Sequence[str], traces: Sequence[Trace]) -> list[list[Trace]]:
    """Each campaign's flows are a set."""
    return [
        [trace for name, trace in zip(campaigns, traces, strict=True) if name == one]
        for one in dict.fromkeys(campaigns)
    ]


def table(found: Sequence[Gain]) -> str:
    """Markdown."""
    head = "| feature | groups | names | groups, least of all sets |\n|---|---|---|---|"
    rows = [
        f"| `{g.feature}` | {g.groups:+.2%} | {g.names:+.2%} | {g.least_groups:+.2%} |"
        for g in found
    ]
    return "\n".join([head, *rows]) + "\n"
