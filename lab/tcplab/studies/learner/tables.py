"""The campaigns' tables of docs/measured/learner.md, each between two marks: `CAMPAIGN PLACE`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcplab.studies import page as pages
from tcplab.studies.cells import Record
from tcplab.studies.learner.judge import Verdict, judge, percent, shown
from tcplab.studies.learner.records import runs

_TOOLS = {
    "tp_bbr3": "tp_bbr3",
    "tcpilot": "tcpilot",
    "tcpilot-epsilon": "epsilon-greedy",
    "tcpilot-thompson": "thompson",
    "bpftune": "bpftune",
    "moved": "cubic, moved to bbr at the first loss",
}
"""By the laboratory's names, in the order of the columns."""


def renewed(page: str, records: Iterable[Record]) -> str:
    """The page with renewed tables."""
    known = list(records)

    def table(campaign: str, place: str) -> str:
        return of_campaign(campaign, pages.of(pages.at(known, place), campaign))

    return pages.renewed(page, table)


def of_campaign(name: str, records: Sequence[Record]) -> str:
    """A row for each condition and what counts there, with a column for each tool; and how many
    verdicts of each tool pass."""
    verdicts = judge(name, runs(records))
    tools = [tool for tool in _TOOLS if any(v.tool == tool for v in verdicts)]
    head = ["condition", "what counts", "least", "beside", *(_TOOLS[tool] for tool in tools)]
    rows = []
    for condition, what in dict.fromkeys((v.condition, v.what) for v in verdicts):
        mine = {v.tool: v for v in verdicts if (v.condition, v.what) == (condition, what)}
        any_of = next(iter(mine.values()))
        beside = f"{any_of.reference}{_again(any_of.reference_price)}"
        rows.append(
            [condition, what, f"{any_of.least:.3g}", beside]
            + [_cell(mine.get(tool)) for tool in tools]
        )
    last = ["passed", "", "", ""]
    for tool in tools:
        own = [v for v in verdicts if v.tool == tool]
        last.append(f"{sum(v.met for v in own)} of {len(own)}")
    return pages.rows(head, [*rows, last])


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return pages.NONE
    text = shown(verdict)
    return (text if verdict.met else f"**{text}**") + _again(verdict.price)


def _again(share: float | None) -> str:
    return "" if share is None else f", {percent(share)}"
