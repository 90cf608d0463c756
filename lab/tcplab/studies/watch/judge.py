"""How well flows are recognised: by P4air's rules and by ours, on the same recordings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from tcplab.studies.watch import native, train
from tcplab.studies.watch.features import GROUP_OF, GROUPS
from tcplab.studies.watch.records import Table
from tcplab.studies.watch.traces import BULK, Trace
from tcplab.studies.watch.train import as_json, fit, in_kernel

CONTROLLED = ("loss", "delay", "loss-delay", "model")
"""Groups of congestion controls."""
RULE, OUTSIDE = 3, 12
"""TP_REASON_RULE: a certain sign; TP_REASON_OUTSIDE: the votes, on a path beyond those recorded."""
FOLDS = 12
"""Number of models for all paths; each judges its unseen paths."""
LATER = 30
"""From this round on, a flow's group ought to be known."""
SETTLED = 10
"""A group counts as found at the first of so many right rounds in a row."""


@dataclass(frozen=True)
class Outcome:
    """The verdict on one flow."""

    algorithm: str
    path: str
    group: str
    """At its end; "unknown": abstained."""
    name: str | None
    """The most likely algorithm at its end."""
    delay: int | None
    """Rounds, or P4air's intervals, until the right group was found to stay."""
    steady: float
    """Share of its rounds, or intervals, in the right group, from the thirtieth on."""
    is_twin: bool = False
    """Its law is another group's on this path (traces.Trace)."""
    kind: str = BULK
    """The kind of its source (traces.py)."""
    sure: float = 0.0
    """The group's share of the votes at its end."""
    name_sure: float = 0.0
    """The name's."""
    is_reno: bool = False
    """Its law is Reno's on this path (traces.Trace)."""
    is_falsely_certain: bool = False
    """A rule said another group in some round."""
    is_voted: bool = True
    """Its confidence at its end is that of votes, on a path like those recorded."""
    votes: Mapping[str, int] = field(default_factory=dict)
    """The share of each algorithm in them at the flow's end."""

    @property
    def is_right(self) -> bool:
        return self.group == GROUP_OF[self.algorithm]

    @property
    def is_wrong(self) -> bool:
        """It is in another algorithm's group, not merely unknown."""
        return self.group in CONTROLLED and not self.is_right


def wilson(right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    if n == 0:
        return 0.0, 1.0
    share = right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _delay(right: npt.NDArray[np.bool_]) -> int | None:
    run = 0
    for i, good in enumerate(right):
        run = run + 1 if good else 0
        if run == SETTLED:
            return i - SETTLED + 2
    return None


def _steady(right: npt.NDArray[np.bool_]) -> float:
    return float(right[LATER:].mean()) if len(right) > LATER else 0.0


def by_p4air(trace: Trace) -> Outcome:
    """P4air's rules; its name for an algorithm is none.  Slow start ends by the slides' two
    indicators: the third, the flow's share, drops a packet to end it, and a watch drops none."""
    groups = native.p4air(trace.flow.intervals)
    wanted = GROUPS.index(trace.group)
    last = GROUPS[int(groups[-1])] if len(groups) else "unknown"
    right = groups == wanted
    steady = _steady(right)
    return Outcome(
        trace.algorithm, trace.path, last, None, _delay(right), steady, trace.is_twin, trace.kind
    )


def by_model(
    trace: Trace,
    model: Table,
    names: Sequence[str],
    light_tracking: bool = False,
    extrapolation: Table | None = None,
) -> Outcome:
    """Ours, as the kernel does it, round for round."""
    verdicts = native.verdicts(trace.flow.rounds, model, light_tracking, extrapolation)
    return of_verdicts(trace, verdicts, names)


def of_verdicts(trace: Trace, verdicts: Table, names: Sequence[str]) -> Outcome:
    """The outcome of the verdicts after each round."""
    wanted = GROUPS.index(trace.group)
    last = verdicts[-1]
    name = names[last["name"]] if last["name"] < len(names) else None
    right = verdicts["group"] == wanted
    return Outcome(
        algorithm=trace.algorithm,
        path=trace.path,
        group=GROUPS[int(last["group"])],
        name=name,
        delay=_delay(right),
        steady=_steady(right),
        is_twin=trace.is_twin,
        kind=trace.kind,
        sure=int(last["group_confidence"]) / 255,
        name_sure=int(last["confidence"]) / 255,
        is_reno=trace.is_reno,
        is_voted=int(last["reason"]) not in (RULE, OUTSIDE),
        is_falsely_certain=bool((~right & (verdicts["reason"] == RULE)).any()),
        votes=dict(zip(names, map(int, last["votes"]), strict=False)),
    )


def cross_validated(
    traces: Sequence[Trace], say: Callable[[str], None] = lambda _: None
) -> list[Outcome]:
    """Each path judged by a model without it: training leaves out a few paths at a time."""
    found = []
    paths = sorted({t.path for t in traces})
    for start in range(min(FOLDS, len(paths))):
        out = set(paths[start::FOLDS])
        say(f"without {'; '.join(sorted(out))}")
        model = as_json(
            fit(train.table([t for t in traces if t.path not in out]), traces[0].is_quic)
        )
        found += by_finished([t for t in traces if t.path in out], model)
    return found


def by_finished(
    traces: Sequence[Trace],
    model: dict[str, Any],
    light_tracking: bool = False,
    extrapolation: dict[str, Any] | None = None,
) -> list[Outcome]:
    """Flows on paths unknown to the model; `extrapolation` is for paths beyond its range."""
    names = [c["name"] for c in model["classes"]]
    row = in_kernel(model)
    beyond = in_kernel(extrapolation) if extrapolation else None
    return [by_model(t, row, names, light_tracking, beyond) for t in traces]


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row per algorithm."""
    lines = [
        "| algorithm | group | flows | right | 95 % interval | unknown | by name | 95 % interval "
        "| delay |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, group in GROUP_OF.items():
        mine = [o for o in outcomes if o.algorithm == name]
        if mine:
            lines.append(_row(name, group, mine))
    return "\n".join(lines) + "\n"


def _row(name: str, group: str, mine: Sequence[Outcome]) -> str:
    n, right = len(mine), sum(o.is_right for o in mine)
    low, high = wilson(right, n)
    unknown = sum(o.group == "unknown" for o in mine)
    named = sum(o.name == name for o in mine)
    delays = [o.delay for o in mine if o.delay is not None]
    delay = f"{median(delays):g}" if delays else "-"
    named_low, named_high = wilson(named, n)
    by_name = f"{named / n:.0%} | {named_low:.0%} to {named_high:.0%}"
    by_name = "- | -" if all(o.name is None for o in mine) else by_name
    return (
        f"| {name} | {group} | {n} | {right / n:.0%} | {low:.0%} to {high:.0%} "
        f"| {unknown / n:.0%} | {by_name} | {delay} |"
    )


@dataclass(frozen=True)
class Figures:
    """Figures over many verdicts."""

    flows: int
    recall: float
    """Over the groups, with equal weights."""
    right: int
    unknown: float
    named: float
    own: int
    """Flows with a law of their own."""
    own_named: float
    delay: float
    falsely_certain: int

    @property
    def share_right(self) -> str:
        low, high = wilson(self.right, self.flows)
        return f"{self.right / max(self.flows, 1):.1%} ({low:.1%} to {high:.1%})"


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Recall over groups and algorithms, names, delay."""
    groups: dict[str, list[bool]] = {}
    for o in outcomes:
        groups.setdefault(GROUP_OF[o.algorithm], []).append(o.is_right)
    n = max(len(outcomes), 1)
    own = [o for o in outcomes if not o.is_twin and not o.is_reno]
    delays = [o.delay for o in outcomes if o.delay is not None]
    return Figures(
        flows=len(outcomes),
        recall=sum(sum(v) / len(v) for v in groups.values()) / max(len(groups), 1),
        right=sum(o.is_right for o in outcomes),
        unknown=sum(o.group == "unknown" for o in outcomes) / n,
        named=sum(o.name == o.algorithm for o in outcomes) / n,
        own=len(own),
        own_named=sum(o.name == o.algorithm for o in own) / max(len(own), 1),
        delay=median(delays) if delays else float("nan"),
        falsely_certain=sum(o.is_falsely_certain for o in outcomes),
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """Its figures in one line."""
    of = figures(outcomes)
    steady = sum(o.steady for o in outcomes) / max(len(outcomes), 1)
    return (
        f"{of.flows} flows: macro recall over groups {of.recall:.1%}; flows right "
        f"{of.share_right}, unknown {of.unknown:.1%}; by name "
        f"{of.named:.1%}, of {of.own} with a law of their own {of.own_named:.1%}; median delay "
        f"{of.delay:g}; rounds "
        f"from the {LATER}th on right {steady:.1%}; falsely certain "
        f"{of.falsely_certain}\n"
    )


_COLUMNS = (
    *("", "flows", "macro recall", "right", "unknown", "by name"),
    *("of those with a law of their own", "delay", "falsely certain"),
)
HEAD_OF_ROWS = f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|"


def row(title: str, outcomes: Sequence[Outcome]) -> str:
    """Markdown: its figures as a row below HEAD_OF_ROWS."""
    of = figures(outcomes)
    cells = [
        *(title, str(of.flows), f"{of.recall:.1%}", of.share_right, f"{of.unknown:.1%}"),
        *(f"{of.named:.1%}", f"{of.own_named:.1%}", f"{of.delay:g}", str(of.falsely_certain)),
    ]
    return "| " + " | ".join(cells) + " |"


def by_path(outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row per path; "own law": without flows following another algorithm's law
    there."""
    lines = [
        "| path | flows | right | own law | right | named | unknown | delay |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for path in sorted({o.path for o in outcomes}):
        mine = [o for o in outcomes if o.path == path]
        own = [o for o in mine if not o.is_twin and not o.is_reno]
        delays = [o.delay for o in mine if o.delay is not None]
        named = sum(o.name == o.algorithm for o in own) / max(len(own), 1)
        cells = [
            path,
            str(len(mine)),
            f"{sum(o.is_right for o in mine) / len(mine):.0%}",
            str(len(own)),
            f"{sum(o.is_right for o in own) / max(len(own), 1):.0%}",
            f"{named:.0%}",
            f"{sum(o.group == 'unknown' for o in mine) / len(mine):.0%}",
            f"{median(delays):g}" if delays else "-",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def confusion(outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row per algorithm, with the names of its flows at their end."""
    names = [name for name in GROUP_OF if any(o.algorithm == name for o in outcomes)]
    lines = ["| | " + " | ".join([*names, "none"]) + " |", "|---" * (len(names) + 2) + "|"]
    for name in names:
        called = Counter(o.name or "none" for o in outcomes if o.algorithm == name)
        cells = [str(called[other] or "") for other in [*names, "none"]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
