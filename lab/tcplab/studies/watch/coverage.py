"""How much abstaining helps, and the verdicts on flows without visible congestion control."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcplab.studies.watch.judge import CONTROLLED, Outcome, wilson
from tcplab.studies.watch.traces import BULK

STEPS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Least shares of the votes for a verdict to count."""
FEW = (("cubic", "bbr"), ("reno", "cubic", "bbr"), ("reno", "cubic", "vegas", "bbr"))
"""Sets of algorithms as other systems distinguish them."""


def curve(outcomes: Sequence[Outcome]) -> str:
    """Markdown: for verdicts with at least this share of the votes, the share of flows covered, and
    the share right."""
    lines = [
        "| at least | flows with a group | right of them | flows with a name | right of them |",
        "|---|---|---|---|---|",
    ]
    for least in STEPS:
        groups = [o for o in outcomes if o.group in CONTROLLED and o.sure >= least]
        names = [o for o in outcomes if o.name is not None and o.name_sure >= least]
        cells = [
            f"{least:g}",
            *_covered(groups, outcomes, lambda o: o.is_right),
            *_covered(names, outcomes, lambda o: o.name == o.algorithm),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _covered(
    found: Sequence[Outcome], all_of_them: Sequence[Outcome], is_right: Callable[[Outcome], bool]
) -> tuple[str, str]:
    right = sum(is_right(o) for o in found)
    low, high = wilson(right, len(found))
    share = f"{len(found) / max(len(all_of_them), 1):.0%}"
    if not found:
        return share, "-"
    return share, f"{right / len(found):.1%} ({low:.1%} to {high:.1%})"


def limited(outcomes: Sequence[Outcome]) -> str:
    """Markdown: application-limited flows, by the kind of their source."""
    lines = [
        "| source | flows | no group | ant or mouse | own group | another group | 95 % interval "
        "| falsely certain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    kinds = sorted({o.kind for o in outcomes} - {BULK})
    for kind in [*kinds, "all"]:
        mine = [o for o in outcomes if o.kind == kind or (kind == "all" and o.kind != BULK)]
        wrong = sum(o.is_wrong for o in mine)
        low, high = wilson(wrong, len(mine))
        counts = [
            len(mine),
            sum(o.group == "unknown" for o in mine),
            sum(o.group in ("ant", "mouse") for o in mine),
            sum(o.is_right for o in mine),
            wrong,
        ]
        cells = [kind, *map(str, counts), f"{low:.0%} to {high:.0%}"]
        cells.append(str(sum(o.is_falsely_certain for o in mine)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def few(outcomes: Sequence[Outcome]) -> str:
    """Markdown: the name with most votes among only these algorithms.  A flow without votes counts
    as wrong."""
    lines = ["| algorithms | flows | right | 95 % interval |", "|---|---|---|---|"]
    for names in (*FEW, ()):
        mine = [o for o in outcomes if o.algorithm in names or not names]
        right = sum(_most(o, names) == o.algorithm for o in mine)
        low, high = wilson(right, len(mine))
        what = ", ".join(names) or "all that the model knows"
        share = right / max(len(mine), 1)
        lines.append(f"| {what} | {len(mine)} | {share:.0%} | {low:.0%} to {high:.0%} |")
    return "\n".join(lines) + "\n"


def _most(outcome: Outcome, names: Sequence[str]) -> str | None:
    votes = {n: v for n, v in outcome.votes.items() if v and (n in names or not names)}
    return max(votes, key=lambda name: votes[name], default=None)
