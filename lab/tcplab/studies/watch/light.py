"""Light tracking by the votes that it asks for: what it saves, and which changes are found.

A threshold (TP_LIGHT_AGAIN) decides when a flow is tracked lightly again.  The flows are those
kept apart (figures.SETS).  A flow that changes its algorithm is two of them in a row, from the
same path and of two groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tcplab.studies.watch import figures, judge, native, train
from tcplab.studies.watch.features import GROUPS
from tcplab.studies.watch.records import Table
from tcplab.studies.watch.traces import BULK, Trace

VOTES = (255, 192, 170, 150, 128, 90)
"""Of 255.  With 255 hardly a flow is tracked lightly more than once."""
LONG = 250
"""Rounds of a flow in a pair of them."""
PAIRS = 300
SEED = 1


@dataclass(frozen=True)
class Found:
    """What became of a change."""

    was_right: bool
    """The first flow was in its group at its end."""
    rounds: int | None
    """From the change until the first round in the new group; None: it was not found."""
    is_right: bool
    """The second flow is in its group at its end."""


class Tracker:
    """The finished models, with light tracking at this threshold."""

    def __init__(self, again: int) -> None:
        self.again = again
        models = [train.read(figures.MODELS / name) for name in figures.OF_PAGE]
        self.model, self.extrapolation = (train.in_kernel(model) for model in models)

    def follow(self, rounds: Table) -> tuple[Table, Table]:
        """The verdict after each round, and whether it passed in light tracking."""
        return native.tracked(rounds, self.model, self.extrapolation, self.again)

    def share(self, trace: Trace) -> float:
        """The share of the flow's time in light tracking."""
        _, lightly = self.follow(trace.flow.rounds)
        us = trace.flow.rounds["duration_us"].astype(np.int64)
        return float(us[lightly == 1].sum() / max(us.sum(), 1))

    def found(self, first: Trace, second: Trace) -> Found:
        rounds = np.concatenate([first.flow.rounds, second.flow.rounds])
        rounds["number"] = np.arange(len(rounds))
        verdicts, _ = self.follow(rounds)
        change = len(first.flow.rounds)
        was = verdicts["group"][change - 1] == GROUPS.index(first.group)
        right = verdicts["group"][change:] == GROUPS.index(second.group)
        later = int(right.argmax()) if right.any() else None
        return Found(bool(was), later, bool(right[-1]))


def pairs(traces: Sequence[Trace]) -> list[tuple[Trace, Trace]]:
    """Flows of two groups from one path, at random."""
    draw = np.random.default_rng(SEED)
    found = []
    long = [trace for trace in traces if len(trace.flow.rounds) >= LONG]
    for first in long:
        others = [t for t in long if t.path == first.path and t.group != first.group]
        if others:
            found.append((first, others[draw.integers(len(others))]))
    return [found[i] for i in draw.permutation(len(found))[:PAIRS]]


def table(say: Callable[[str], None]) -> str:
    """Markdown: a row for each threshold."""
    judges = figures.Judges(say)
    sets = [name for name in figures.ALL_SETS if name != figures.LIMITED]
    traces = [t for t in judges.read(sets) if t.kind == BULK and not t.is_twin]
    changes = pairs(traces)
    say(f"{len(traces)} flows, {len(changes)} changes")
    head = (
        "| votes of 255 | time in light tracking | groups | names | changes found "
        "| right at the end | rounds until found, median and 90 % |"
    )
    return "\n".join([head, "|---" * 7 + "|", *_rows(traces, changes)]) + "\n"


def _rows(traces: Sequence[Trace], changes: Sequence[tuple[Trace, Trace]]) -> Iterable[str]:
    names = [c["name"] for c in train.read(figures.MODELS / figures.OF_PAGE[0])["classes"]]
    for again in VOTES:
        tracker = Tracker(again)
        share = np.mean([tracker.share(t) for t in traces if len(t.flow.rounds) >= LONG])
        outcomes = [judge.of_verdicts(t, tracker.follow(t.flow.rounds)[0], names) for t in traces]
        of = judge.figures(outcomes)
        found = [tracker.found(*pair) for pair in changes]
        found = [one for one in found if one.was_right]
        rounds = [one.rounds for one in found if one.rounds is not None]
        yield (
            f"| {again} | {share:.1%} | {of.right / of.flows:.1%} | {of.named:.1%} "
            f"| {len(rounds)} of {len(found)} | {np.mean([one.is_right for one in found]):.1%} "
            f"| {np.median(rounds):.0f}, {np.quantile(rounds, 0.9):.0f} |"
        )
