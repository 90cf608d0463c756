"""The tables of docs/measured/campaigns.md from records, each between two marks: `NAME PLACE`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any

from scipy.stats import spearmanr

from tcplab import published
from tcplab.metrics.intervals import median_interval
from tcplab.studies import page as pages
from tcplab.studies.cells import Record
from tcplab.studies.page import labels, of

_QUEUES = {"host": "pfifo", "machine": "codel"}
"""For rtt-fairness, in each place: the slides' AQM has one queue for all flows, as CoDel has."""


def renewed(page: str, records: list[Record]) -> str:
    """The page with renewed tables."""

    def table(name: str, place: str) -> str:
        return _TABLES[name](pages.at(records, place), place)

    return pages.renewed(page, table)


def shown(values: Iterable[float | None], digits: int, scale: float = 1.0) -> str:
    """The median, and with several repetitions its interval (the range with fewer than six)."""
    known = [value * scale for value in values if value is not None]
    found = median_interval(known)
    if found is None:
        return pages.NONE
    middle = f"{found.median:.{digits}f}"
    if found.count == 1:
        return middle
    return f"{middle} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def repetitions(cells: Sequence[Sequence[Any]]) -> str:
    """How many each of some cells has."""
    counts = sorted({len(cell) for cell in cells})
    if not counts:
        return "no"
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _values(records: list[Record], name: str) -> list[float | None]:
    return [record["values"].get(name) for record in records]


def rtt_fairness(records: list[Record], place: str) -> str:
    """With one queue for all flows."""
    return _rtt_fairness(records, _QUEUES[place])


def rtt_fairness_apart(records: list[Record], _: str) -> str:
    """With a queue for each flow."""
    return _rtt_fairness(records, "fq_codel")


def _rtt_fairness(records: list[Record], qdisc: str) -> str:
    """Two lines for each algorithm, ours and the slides', with a column for each difference.  The
    last column has the least and the highest retransmitted share of its cells."""
    slides = "p4air-rtt-fifo" if qdisc == "pfifo" else "p4air-rtt-aqm"
    theirs = {
        (published.canonical(f.where["cc"]), float(f.where["rtt_difference_ms"])): f.value
        for f in published.load(slides).figures
    }
    there = of(records, "rtt-fairness", qdisc=qdisc)
    differences = sorted(labels(there, "rtt-fairness", "rtt_difference_ms"))
    rows, pairs, counts = [], [], []
    for cc in sorted(labels(there, "rtt-fairness", "cc"), key=_in_slides(theirs)):
        name = published.canonical(cc)
        ours, slide = [str(name)], ["slides"]
        for difference in differences:
            jains = _values(of(there, "rtt-fairness", cc=cc, rtt_difference_ms=difference), "jain")
            known = [value for value in jains if value is not None]
            ours.append(shown(known, 2))
            published_one = theirs[(name, float(difference))]
            slide.append(f"{published_one:.2f}")
            if known:
                pairs.append((published_one, median(known)))
                counts.append(known)
        ratios = _values(of(there, "rtt-fairness", cc=cc), "retransmit_ratio")
        again = [100 * ratio for ratio in ratios if ratio is not None]
        ours.append(f"{min(again):.2f} to {max(again):.2f}" if again else pages.NONE)
        rows += [ours, [*slide, pages.NONE]]
    if not pairs:
        return pages.NOT_RUN
    numbers = (f"{difference:g}" for difference in differences)
    head = ["difference, ms", *numbers, "sent again, %"]
    return f"{pages.rows(head, rows)}\n{_agreement(pairs, repetitions(counts))}\n"


def _in_slides(theirs: dict[Any, float]) -> Any:
    order = list(dict.fromkeys(cc for cc, _ in theirs))
    return lambda cc: order.index(published.canonical(cc))


def _agreement(pairs: list[tuple[float, float]], count: str) -> str:
    theirs, ours = zip(*pairs, strict=True)
    rho = float(spearmanr(theirs, ours).statistic)
    return (
        f"{len(pairs)} points, repetitions of each: {count}. Rank correlation (Spearman) with the "
        f"slides: {rho:.2f}; mean {mean(ours):.2f}, theirs {mean(theirs):.2f}."
    )


def fct(records: list[Record], _: str) -> str:
    """Slowdowns and retransmissions of each scale and number of streams."""
    algorithms = labels(records, "fct", "cc")
    if not algorithms:
        return pages.NOT_RUN
    head = ["scale, bytes", "at once", "n"]
    for cc in algorithms:
        head += [f"{cc}: p50", "p95", "p99", "sent again, %"]
    rows, scales = [], sorted(labels(records, "fct", "scale_bytes"))
    for scale in scales:
        for incast in sorted(labels(records, "fct", "incast")):
            cells = of(records, "fct", scale_bytes=scale, incast=incast)
            if not cells:
                continue
            of_each = [of(cells, "fct", cc=cc) for cc in algorithms]
            row = [f"{scale:.0f}", f"{incast:g}", repetitions(of_each)]
            for mine in of_each:
                row += [shown(_values(mine, f"fct_slowdown_{p}"), 1) for p in ("p50", "p95", "p99")]
                row.append(shown(_values(mine, "retransmit_ratio"), 2, 100))
            rows.append(row)
    return pages.rows(head, rows)


def native(records: list[Record], _: str) -> str:
    """A row for each rate, queue and algorithm."""
    head = [
        "Mbit/s",
        "queue",
        "algorithm",
        "n",
        "goodput, Mbit/s",
        "sent again, %",
        "RTT p50, ms",
        "processor per gigabit, s",
        "relay late p99, us",
    ]
    rows = []
    for rate in sorted(labels(records, "native", "rate")):
        for queue in labels(records, "native", "queue"):
            for cc in ("cubic", "tp_cubic", "bbr", "tp_bbr", "tp_bbr3"):
                cells = of(records, "native", rate=rate, queue=queue, cc=cc)
                if not cells:
                    continue
                row = [f"{rate:g}", str(queue), cc, str(len(cells))]
                row.append(shown(_values(cells, "goodput_mbit"), 1))
                row.append(shown(_values(cells, "retransmit_ratio"), 3, 100))
                row.append(shown(_values(cells, "rtt_ms_p50"), 1))
                row.append(shown(_values(cells, "processor_s_per_gbit"), 2))
                row.append(shown(_values(cells, "relay_late_us_p99"), 0))
                rows.append(row)
    return pages.rows(head, rows) if rows else pages.NOT_RUN


def cellular(records: list[Record], _: str) -> str:
    """A row for each trace and tool."""
    head = ["trace", "tool", "n", "goodput, Mbit/s", "sent again, %", "RTT p50, ms", "RTT p95, ms"]
    rows = []
    for trace in labels(records, "cellular", "trace"):
        for variant in sorted(labels(records, "cellular", "variant"), key=_tools_last):
            cells = of(records, "cellular", trace=trace, variant=variant)
            if not cells:
                continue
            row = [str(trace), str(variant), str(len(cells))]
            row.append(shown(_values(cells, "goodput_mbit"), 2))
            row.append(shown(_values(cells, "retransmit_ratio"), 2, 100))
            row += [shown(_values(cells, f"rtt_ms_{p}"), 0) for p in ("p50", "p95")]
            rows.append(row)
    return pages.rows(head, rows) if rows else pages.NOT_RUN


def _tools_last(variant: str) -> tuple[bool, bool, str]:
    return variant.startswith("tcpilot"), variant != "cubic", variant


_TABLES = {
    "rtt-fairness": rtt_fairness,
    "rtt-fairness-apart": rtt_fairness_apart,
    "fct": fct,
    "native": native,
    "cellular": cellular,
}
