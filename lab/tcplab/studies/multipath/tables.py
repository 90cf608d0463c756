"""The tables of docs/measured/multipath.md, each between two marks that name it: `NAME PLACE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import sqrt
from statistics import median
from typing import Any

from tcplab import published
from tcplab.algorithms import without_prefix
from tcplab.studies.cells import Record

TRANSPORTS = ("mptcp", "mpquic")
_NONE = "–"
_MARKS = re.compile(r"(<!-- table: ([a-z-]+) ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(page: str, records: list[Record]) -> str:
    """The page with its tables anew."""

    def table(mark: re.Match[str]) -> str:
        there = [record for record in records if record["place"] == mark[3]]
        return f"{mark[1]}\n{_TABLES[mark[2]](there)}\n{mark[4]}"

    return _MARKS.sub(table, page)


def shown(values: Iterable[float | None], digits: int = 2) -> str:
    """The median, and if it is of several repetitions, their range and number."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return _NONE
    middle = f"{median(known):.{digits}f}"
    if len(known) == 1:
        return middle
    return f"{middle} ({known[0]:.{digits}f} to {known[-1]:.{digits}f}; {len(known)})"


def _rows(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _of(records: list[Record], campaign: str, **labels: Any) -> list[Record]:
    return [
        record
        for record in records
        if record["campaign"] == campaign
        and all(record["labels"].get(axis) == value for axis, value in labels.items())
    ]


def _labels(records: list[Record], campaign: str, axis: str) -> list[Any]:
    """In the order of the records, which is the scenario's."""
    return list(dict.fromkeys(record["labels"][axis] for record in _of(records, campaign)))


def _part(name: str, key: str) -> Callable[[Record], float | None]:
    return lambda record: record["parts"].get(name, {}).get(key)


def _slides(transport: str, case: str, cc: str) -> str:
    """The slides' shares of the two links."""
    shares = [
        f"{figure.value:.2f}"
        for figure in published.load(f"p4air-{transport}").figures
        if figure.where["case"] == case
        and published.canonical(figure.where["cc"]) == published.canonical(cc)
    ]
    return ", ".join(shares) or _NONE


def _links(records: list[Record], campaign: str, transports: tuple[str, ...]) -> str:
    head = ["case", "algorithm"]
    for transport in transports:
        head += [f"{transport}: link 1", "link 2", "slides: links 1 and 2"]
    rows = []
    for case in _labels(records, campaign, "case"):
        for cc in _labels(records, campaign, "cc"):
            if not _of(records, campaign, case=case, cc=cc):
                continue
            row = [case, without_prefix(cc)]
            for transport in transports:
                swept = {"transport": transport} if len(transports) > 1 else {}
                cells = _of(records, campaign, case=case, cc=cc, **swept)
                row += [shown(map(_part(link, "link_share"), cells)) for link in ("link1", "link2")]
                row.append(_slides(transport, case, cc))
            rows.append(row)
    return _rows(head, rows)


def _mpquic(records: list[Record]) -> str:
    return _links(records, "mpquic", TRANSPORTS)


def _mptcp_open(records: list[Record]) -> str:
    return _links(records, "mptcp-open", ("mptcp",))


def _failures(records: list[Record]) -> str:
    # wVegas has a campaign of its own, because QUIC does not have it.
    names = ("path-down", "path-down-wvegas")
    head = ["failure", "algorithm"]
    for transport in TRANSPORTS:
        head += [f"{transport}: done after, s", "standstill, s"]
    rows = []
    for failure in _labels(records, names[0], "failure"):
        for name, cc in ((n, cc) for n in names for cc in _labels(records, n, "cc")):
            row = [failure, without_prefix(cc)]
            for transport in TRANSPORTS:
                cells = _of(records, name, failure=failure, cc=cc, transport=transport)
                done = [cell["values"]["fct_ms_p50"] for cell in cells]
                row.append(shown(None if ms is None else ms / 1000 for ms in done))
                row.append(shown(cell["values"]["standstill_s"] for cell in cells))
            rows.append(row)
    return _rows(head, rows)


def _shared(records: list[Record]) -> str:
    name = "path-shared"
    head = ["algorithm"]
    for transport in TRANSPORTS:
        head += [f"{transport}, two paths", "the TCP", "share of the two paths", "expected"]
    rows = []
    for cc in _labels(records, name, "cc"):
        row = [without_prefix(cc)]
        for transport in TRANSPORTS:
            cells = _of(records, name, cc=cc, transport=transport)
            both, one = (
                [_part(flow, "goodput_mbit")(cell) or 0.0 for cell in cells]
                for flow in ("multipath", "single")
            )
            row += [shown(both), shown(one)]
            row.append(shown(b / (b + o) for b, o in zip(both, one, strict=True)))
            row.append(shown(map(_expected, cells)) if cc in _ONE_TCP else _NONE)
        rows.append(row)
    return _rows(head, rows)


_ONE_TCP = ("tp_lia", "tp_olia", "tp_balia")
"""Algorithms whose paths together are to have one TCP's window."""


def _expected(cell: Record) -> float | None:
    """The share of a connection whose windows together are one TCP's: packets under way go with
    the square root of the packets between two reductions (Mathis et al., CCR 27(3), 1997)."""
    between = cell.get("between_cuts") or {}
    if not {"multipath", "single"} <= between.keys():
        return None
    windows = {name: sqrt(number) for name, number in between.items()}
    return windows["multipath"] / (windows["multipath"] + windows["single"])


def _single(records: list[Record]) -> str:
    name = "quic-single"
    rows = []
    for rate in _labels(records, name, "rate"):
        goodputs = [
            [
                cell["values"]["goodput_mbit"]
                for cell in _of(records, name, rate=rate, transport=transport)
            ]
            for transport in ("tcp", "quic")
        ]
        middle = [median(found) if found else None for found in goodputs]
        known = middle[0] and middle[1]
        ratio = f"{middle[1] / middle[0]:.3f}" if known and middle[0] and middle[1] else _NONE
        rows.append([f"{rate:g}", *(shown(found, 1) for found in goodputs), ratio])
    return _rows(["link, Mbit/s", "TCP", "QUIC", "QUIC over TCP"], rows)


_TABLES = {
    "mpquic": _mpquic,
    "mptcp-open": _mptcp_open,
    "failures": _failures,
    "shared": _shared,
    "single": _single,
}
