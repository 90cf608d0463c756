"""The tables of docs/measured/l4s.md, each between two marks with its queue and its flows."""

from __future__ import annotations

from tcplab import published
from tcplab.algorithms import without_prefix
from tcplab.studies import page as pages
from tcplab.studies.cells import Record
from tcplab.studies.page import NONE
from tcplab.studies.page import median_and_range as shown

_HEAD = [
    "Mbit/s",
    "RTT, ms",
    "flow (queue)",
    "rate, Mbit/s",
    "retransmitted, %",
    "share, %",
    "l4s-tests: share, %",
    "queue delay p50, ms",
    "p99, ms",
    "CE, %",
    "link used, %",
]


def renewed(page: str, records: list[Record]) -> str:
    """The page with renewed tables."""
    return pages.renewed(page, lambda queue, pair: of_pair(records, queue, pair))


def of_pair(records: list[Record], queue: str, pair: str) -> str:
    """A row for each flow at each rate and RTT; of the quick form only if there is no other run."""
    wanted = {"queue": queue, "pair": pair}
    there = [r for r in records if wanted.items() <= r["labels"].items()]
    if not there:
        return pages.NOT_RUN
    points = sorted({(r["labels"]["rate"], r["labels"]["rtt"]) for r in there})
    rows = []
    for rate, rtt in points:
        cells = [r for r in there if (r["labels"]["rate"], r["labels"]["rtt"]) == (rate, rtt)]
        whole = [cell for cell in cells if not cell["quick"]]
        mark = "" if whole else " (quick)"
        for name in cells[0]["flows"]:
            rows.append([f"{rate:g}{mark}", f"{rtt:g}", *_row(whole or cells, name)])
    return pages.rows(_HEAD, rows)


def _row(cells: list[Record], name: str) -> list[str]:
    flows = [cell["flows"][name] for cell in cells]
    labels = cells[0]["labels"]
    queues = sorted({flow["queue"] for flow in flows})
    own = f" ({'/'.join(queues)})" if labels["queue"].startswith("dualpi2") else ""
    return [
        f"{without_prefix(flows[0]['cc'])}{own}",
        shown((flow["wire_mbit"] for flow in flows), 2),
        shown((flow["retransmit_ratio"] for flow in flows), 2, 100),
        shown((flow["share"] for flow in flows), 0, 100),
        _published_share(labels, name),
        shown((flow["queued_ms_p50"] for flow in flows), 2),
        shown((flow["queued_ms_p99"] for flow in flows), 2),
        shown((flow["mark_ratio"] for flow in flows), 2, 100),
        shown((cell["utilisation"] for cell in cells), 1, 100),
    ]


def _published_share(labels: Record, name: str) -> str:
    figures = {
        figure.metric: figure.value
        for figure in published.load("l4s-tests").figures
        if all(
            published.canonical(labels[k]) == published.canonical(v)
            for k, v in figure.where.items()
        )
    }
    total = sum(figures.values())
    return f"{100 * figures[f'goodput_mbit.{name}'] / total:.0f}" if total else NONE
