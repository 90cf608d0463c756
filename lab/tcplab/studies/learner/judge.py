"""Judges a comparison of tools with static algorithms: does each cell pass?

The best static algorithm of a condition is the one with the best mean over the repetitions, with
the same seeds for all.  A cell passes when the ratio of the means reaches the bound; its interval
is Student's, of the repetitions' own ratios, and needs two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from scipy.stats import t as student

from tcplab.metrics import cell_metrics
from tcplab.metrics.rates import flow_goodputs_mbit
from tcplab.metrics.utility import utilities_mbit
from tcplab.results.read import Campaign, Cell

AXIS = "variant"
DEFAULT = "cubic"
"""A host's static algorithm without a tool."""
ALL_DEFAULT = "all-first"
"""The variant of interference with the default on all connections."""
_SHOWN = ("tp_bbr3",)
"""Static algorithms with columns of their own, as tools have."""
RECOVERY = 50
"""The best algorithm must be found within so many connections after a change of the path."""
_CONFIDENCE = 0.95
_GAIN = 1.05
"""From this much on another algorithm than the default has something to gain."""

Values = dict[str, float]
"""Figures of one cell by name."""
Condition = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Rule:
    """A bound: a figure, the least share of a reference's, and the reason."""

    figure: str
    least: float
    what: str
    price: str | None = None
    """The retransmitted share shown with it."""
    beside: tuple[str, ...] = ()
    """The static algorithms whose best is compared with; none for all."""


@dataclass(frozen=True)
class Verdict:
    """One tool in one condition."""

    condition: str
    tool: str
    what: str
    reference: str
    ratio: float
    low: float | None
    high: float | None
    least: float
    price: float | None
    reference_price: float | None

    @property
    def met(self) -> bool:
        return self.ratio >= self.least


@dataclass(frozen=True)
class Run:
    """The figures of one cell."""

    labels: Mapping[str, Any]
    repetition: int
    tuned: bool
    """Whether a tool chose, and not a static algorithm."""
    figures: Values


@dataclass(frozen=True)
class Way:
    """A static algorithm or a tool under one condition: its figures by repetition."""

    name: str
    tuned: bool
    runs: Mapping[int, Values]

    def mean(self, figure: str) -> float | None:
        known = [run[figure] for run in self.runs.values() if figure in run]
        return mean(known) if known else None


def judge(name: str, runs: Iterable[Run]) -> list[Verdict]:
    """Every tool in every condition of this campaign.  KeyError if nobody has bounds for it."""
    _, rules = _JUDGES[name]
    found = []
    for condition, variants in _conditions(runs).items():
        tools = [variant for variant in variants if variant.tuned or variant.name in _SHOWN]
        static = [variant for variant in variants if not variant.tuned]
        text = ", ".join(str(value) for _, value in condition) or "all"
        for tool in tools:
            for rule in rules(static):
                verdict = _verdict(text, tool, static, rule)
                found += [verdict] if verdict else []
    return found


def runs_of(campaign: Campaign) -> list[Run]:
    """The good cells of a campaign.  KeyError if nobody has bounds for it."""
    return [run_of(campaign, cell) for cell in campaign.cells() if cell.status == "ok"]


def run_of(campaign: Campaign, cell: Cell) -> Run:
    """A cell of a campaign.  KeyError if nobody has bounds for it."""
    figures, _ = _JUDGES[campaign.name]
    return Run(cell.labels, cell.repetition, bool(cell.tuner()), figures(cell))


def judged() -> list[str]:
    """Names of the campaigns with rules."""
    return sorted(_JUDGES)


def _conditions(given: Iterable[Run]) -> dict[Condition, list[Way]]:
    """The variants of each condition."""
    runs: dict[Condition, dict[str, dict[int, Values]]] = {}
    tuned = set()
    for run in given:
        condition = tuple((a, v) for a, v in run.labels.items() if a != AXIS)
        variant = str(run.labels[AXIS])
        tuned |= {variant} if run.tuned else set()
        runs.setdefault(condition, {}).setdefault(variant, {})[run.repetition] = run.figures
    return {
        condition: [Way(name, name in tuned, found) for name, found in variants.items()]
        for condition, variants in runs.items()
    }


def _verdict(text: str, tool: Way, static: Sequence[Way], rule: Rule) -> Verdict | None:
    """None if there is nothing to compare with."""
    asked = [variant for variant in static if not rule.beside or variant.name in rule.beside]
    best = _best(asked, rule.figure)
    mine, theirs = tool.mean(rule.figure), best.mean(rule.figure) if best else None
    if best is None or mine is None or not theirs:
        return None
    low, high = interval(
        [
            run[rule.figure] / best.runs[n][rule.figure]
            for n, run in tool.runs.items()
            if n in best.runs and best.runs[n].get(rule.figure) and rule.figure in run
        ]
    )
    prices = [variant.mean(rule.price) if rule.price else None for variant in (tool, best)]
    return Verdict(
        text, tool.name, rule.what, best.name, mine / theirs, low, high, rule.least, *prices
    )


def _best(static: Sequence[Way], figure: str) -> Way | None:
    known = [variant for variant in static if variant.mean(figure) is not None]
    return max(known, key=lambda variant: variant.mean(figure) or 0.0, default=None)


def interval(ratios: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's interval of the mean; None for fewer than two values."""
    if len(ratios) < 2:
        return None, None
    half = float(student.ppf((1 + _CONFIDENCE) / 2, len(ratios) - 1)) * stdev(ratios)
    half /= sqrt(len(ratios))
    return mean(ratios) - half, mean(ratios) + half


def _figures(cell: Cell) -> Values:
    """Metrics of the whole cell, and of its phases as `utility_mbit.phase1`."""
    found = cell.metrics() or cell_metrics(cell)
    values = dict(found["values"])
    for group, own in found["groups"].items():
        values |= {f"{name}.{group}": value for name, value in own.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _after_a_change(cell: Cell) -> Values:
    """Utility of the connections from RECOVERY after the first change on, warm-up or not.  A
    connection cut off by the end of the run does not count."""
    flows = cell.flows().sort_values("start_s")
    changed_s = cell.ideal.phases_s[1]
    later = flows[(flows["start_s"] >= changed_s) & flows["fct_s"].notna()].iloc[RECOVERY:]
    sent = float(later["sent_packets"].sum())
    if later.empty or not sent:
        return {}
    return {
        "utility": float(utilities_mbit(later).mean()),
        "again": float(later["retransmitted_packets"].sum()) / sent,
    }


def _default_share(cell: Cell) -> Values:
    """Among the later half of the connections, the share that ends with the default, whether
    another was chosen or came to the rescue; and the utility of the link, not of a connection: a
    connection can gain by taking from its neighbours, but their total cannot."""
    flows = cell.flows().sort_values("start_s")
    later = flows.iloc[len(flows) // 2 :]
    default = str(cell.raw["sysctls"]["net.ipv4.tcp_congestion_control"])
    values = _figures(cell)
    again = values["retransmit_ratio_all"]
    return {
        "default_share": float((later["cc_used"] == default).mean()),
        "link_utility": values["goodput_mbit"] * (1 - again),
        "again": again,
    }


def _of_choice(_: Sequence[Way]) -> list[Rule]:
    return [
        Rule("learned_utility_mbit", 0.97, "utility from connection 26 on", "retransmit_ratio"),
        Rule("utility_mbit", 0.93, "utility over all", "retransmit_ratio_all"),
    ]


def _of_cold(static: Sequence[Way]) -> list[Rule]:
    """Where nothing is to be gained, the default must not be left for worse."""
    figure = "utility_mbit_geometric"
    best = _best(static, figure)
    default = next((variant.mean(figure) for variant in static if variant.name == DEFAULT), None)
    gain = (best.mean(figure) or 0.0) / default if best and default else 1.0
    if gain >= _GAIN:
        return [Rule(figure, 0.9, "utility, of the best", "retransmit_ratio_all")]
    # The best is only slightly better than the default, and the default counts.
    return [Rule(figure, 0.99 / gain, "utility, 0.99 of the default", "retransmit_ratio_all")]


def _of_change(_: Sequence[Way]) -> list[Rule]:
    return [Rule("utility", 0.95, f"utility from {RECOVERY} connections after it on", "again")]


def _of_long(static: Sequence[Way]) -> list[Rule]:
    phases = {name for variant in static for run in variant.runs.values() for name in run}
    numbers = sorted(n.rpartition(".")[2] for n in phases if n.startswith("utility_mbit.phase"))
    each = [
        Rule(f"utility_mbit.{n}", 0.85, f"utility in {n}", f"retransmit_ratio.{n}") for n in numbers
    ]
    return [*each, Rule("utility_mbit", 0.93, "utility over all", "retransmit_ratio_all")]


def _of_shapes(static: Sequence[Way]) -> list[Rule]:
    """In each phase of 150 s, whether the path changed or not."""
    each = [
        Rule(rule.figure, 0.9, rule.what, rule.price, ("cubic", "bbr"))
        for rule in _of_long(static)[:-1]
    ]
    return [
        *each,
        Rule("utility_mbit", 0.95, "utility over all", "retransmit_ratio_all", ("cubic", "bbr")),
    ]


def _of_interference(_: Sequence[Way]) -> list[Rule]:
    return [
        Rule("default_share", 0.5, "connections that keep the default, late in the run", "again"),
        Rule(
            "link_utility", 0.97, "utility of the link, of the default's", "again", (ALL_DEFAULT,)
        ),
    ]


def _of_gain(_: Sequence[Way]) -> list[Rule]:
    figure = "utility_mbit"
    return [Rule(figure, 0.97, "utility over all", "retransmit_ratio_all", ("cubic", "bbr"))]


def _beside_others(cell: Cell) -> Values:
    """The rate of the other hosts' flows, and the utility of ours."""
    flows = cell.flows()
    ours = flows[(flows["group"] == "ours") & flows["fct_s"].notna()]
    others = flows[flows["group"] == "others"]
    sent = float(ours["sent_packets"].sum())
    values = {"others": float(flow_goodputs_mbit(others).sum())}
    if ours.empty or not sent:
        return values
    return {
        **values,
        "utility": float(utilities_mbit(ours).mean()),
        "again": float(ours["retransmitted_packets"].sum()) / sent,
    }


def _of_strangers(_: Sequence[Way]) -> list[Rule]:
    beside = (DEFAULT,)
    return [
        Rule("others", 0.8, "rate of the others", "again", beside),
        Rule("utility", 0.97, "utility of ours", "again", beside),
    ]


_JUDGES: dict[str, tuple[Callable[[Cell], Values], Callable[[Sequence[Way]], list[Rule]]]] = {
    "choice-utility": (_figures, _of_choice),
    "cold": (_figures, _of_cold),
    "change": (_after_a_change, _of_change),
    "long": (_figures, _of_long),
    "interference": (_default_share, _of_interference),
    "gain": (_figures, _of_gain),
    "shapes": (_figures, _of_shapes),
    "strangers": (_beside_others, _of_strangers),
}


def markdown(found: Sequence[Verdict]) -> str:
    """A row for each verdict, and how many passed."""
    head = ["condition", "tool", "what", "to", "ratio", "bound", "", "retransmitted", "its"]
    rows = [
        [v.condition, v.tool, v.what, v.reference, shown(v), f"{v.least:.3g}",
         "pass" if v.met else "**miss**", percent(v.price), percent(v.reference_price)]
        for v in found
    ]  # fmt: skip
    lines = [" | ".join(row) for row in [head, ["---"] * len(head), *rows]]
    met = sum(v.met for v in found)
    return "\n".join([*(f"| {line} |" for line in lines), "", f"{met} of {len(found)} pass."])


def shown(verdict: Verdict) -> str:
    """The ratio, and its interval if there is one."""
    if verdict.low is None or verdict.high is None:
        return f"{verdict.ratio:.3f}"
    return f"{verdict.ratio:.3f} ({verdict.low:.3f} to {verdict.high:.3f})"


def percent(share: float | None) -> str:
    """A share in percent, if known."""
    return "" if share is None else f"{100 * share:.2f} %"
