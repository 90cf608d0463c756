"""Whether a verdict's confidence is the probability that it is right, and how to make it so.

A confidence is a share of the trees' votes.  `fit` finds the logistic map from votes to the
probability (Platt 1999) on teaching flows, none of which a tree learned from.  `table` compares
any confidence with the share of right verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tcplab.studies.watch.judge import CONTROLLED, Outcome, wilson

STEPS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01)
"""Bounds of the rows: what the confidence is in."""
_LEAST = 0.5 / 255


@dataclass(frozen=True)
class Verdict:
    """A share of the votes, and whether what they were for is right."""

    votes: float
    is_right: bool


@dataclass(frozen=True)
class Map:
    """From a share of the votes to a probability: its logit is `offset + slope * logit(votes)`."""

    offset: float = 0.0
    slope: float = 1.0

    def __call__(self, votes: float) -> float:
        votes = min(max(votes, _LEAST), 1 - _LEAST)
        logit = self.offset + self.slope * math.log(votes / (1 - votes))
        return 1 / (1 + math.exp(-logit))


def _voted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.is_voted and o.group in CONTROLLED and not o.is_twin]


def of_groups(outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Flows whose votes are for a group of congestion controls."""
    return [Verdict(o.sure, o.is_right) for o in _voted(outcomes)]


def of_names(outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Such flows with a name, and with a law of their own."""
    named = [o for o in _voted(outcomes) if o.name is not None and not o.is_reno]
    return [Verdict(o.name_sure, o.name == o.algorithm) for o in named]


def fit(verdicts: Sequence[Verdict]) -> Map:
    """The map that makes the teaching verdicts most likely.  The targets are Platt's, a little
    within 0 and 1, so that few flows make no certainty."""
    votes = np.clip([v.votes for v in verdicts], _LEAST, 1 - _LEAST)
    logits = np.log(votes / (1 - votes))
    right = np.array([v.is_right for v in verdicts])
    count = right.sum()
    target = np.where(right, (count + 1) / (count + 2), 1 / (len(right) - count + 2))

    def loss(of: npt.NDArray[np.float64]) -> float:
        at = of[0] + of[1] * logits
        return float((np.logaddexp(0, -at) * target + np.logaddexp(0, at) * (1 - target)).sum())

    offset, slope = minimize(loss, np.array([0.0, 1.0]), method="Nelder-Mead").x
    return Map(round(float(offset), 2), round(float(slope), 2))


def calibration(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """As a model's file has it."""
    maps = {"group": fit(of_groups(outcomes)), "name": fit(of_names(outcomes))}
    return {name: {"offset": m.offset, "slope": m.slope} for name, m in maps.items()}


def of_model(model: dict[str, Any], of: str) -> Map:
    """The map of a model's file, for `group` or `name`."""
    return Map(**model.get("calibration", {}).get(of, {}))


def table(verdicts: Sequence[Verdict], shown: Callable[[float], float] = Map()) -> str:
    """Markdown: for each range of the shown confidence its mean, and the share of right verdicts.
    A mean outside the interval is bold."""
    lines = [
        "| confidence | flows | mean confidence | right | 95 % interval |",
        "|---|---|---|---|---|",
    ]
    pairs = [(shown(v.votes), v.is_right) for v in verdicts]
    for low, high in pairwise(STEPS):
        mine = [pair for pair in pairs if low <= pair[0] < high]
        if mine:
            lines.append(_row(f"{low:g} to {min(high, 1):g}", mine))
    return "\n".join([*lines, _row("all", pairs)]) + "\n"


def _row(title: str, pairs: Sequence[tuple[float, bool]]) -> str:
    right, n = sum(is_right for _, is_right in pairs), len(pairs)
    mean = sum(confidence for confidence, _ in pairs) / max(n, 1)
    low, high = wilson(right, n)
    told = f"{mean:.2f}" if low <= mean <= high else f"**{mean:.2f}**"
    return f"| {title} | {n} | {told} | {right / max(n, 1):.2f} | {low:.2f} to {high:.2f} |"
