"""The tables of docs/measured/multipath.md, each between two marks: `NAME PLACE`."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from statistics import median

from tcplab import published
from tcplab.algorithms import without_prefix
from tcplab.studies import page as pages
from tcplab.studies.cells import Record
from tcplab.studies.page import NONE, labels, of
from tcplab.studies.page import median_and_range as shown

TRANSPORTS = ("mptcp", "mpquic")


def renewed(page: str, records: list[Record]) -> str:
    """The page with renewed tables."""

    return pages.renewed(page, lambda name, place: _TABLES[name](pages.at(records, place)))


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
    return ", ".join(shares) or NONE


def _links(records: list[Record], campaign: str, transports: tuple[str, ...]) -> str:
    head = ["case", "algorithm"]
    for transport in transports:
        head += [f"{transport}: link 1", "link 2", "slides: links 1 and 2"]
    rows = []
    for case in labels(records, campaign, "case"):
        for cc in labels(records, campaign, "cc"):
            if not of(records, campaign, case=case, cc=cc):
                continue
            row = [case, without_prefix(cc)]
            for transport in transports:
                swept = {"transport": transport} if len(transports) > 1 else {}
                cells = of(records, campaign, case=case, cc=cc, **swept)
                row += [shown(map(_part(link, "link_share"), cells)) for link in ("link1", "link2")]
                row.append(_slides(transport, case, cc))
            rows.append(row)
    return pages.rows(head, rows)


def _mpquic(records: list[Record]) -> str:
    return _links(records, "mpquic", TRANSPORTS)


def _mptcp_open(records: list[Record]) -> str:
    return _links(records, "mptcp", ("mptcp",))


def _failures(records: list[Record]) -> str:
    # wVegas has a campaign of its own, because QUIC does not have it.
    names = ("path-down", "path-down-wvegas")
    head = ["failure", "algorithm"]
    for transport in TRANSPORTS:
        head += [f"{transport}: done after, s", "standstill, s"]
    rows = []
    for failure in labels(records, names[0], "failure"):
        for name, cc in ((n, cc) for n in names for cc in labels(records, n, "cc")):
            row = [failure, without_prefix(cc)]
            for transport in TRANSPORTS:
                cells = of(records, name, failure=failure, cc=cc, transport=transport)
                done = [cell["values"]["fct_ms_p50"] for cell in cells]
                row.append(shown(None if ms is None else ms / 1000 for ms in done))
                row.append(shown(cell["values"]["standstill_s"] for cell in cells))
            rows.append(row)
    return pages.rows(head, rows)


def _shared(records: list[Record]) -> str:
    name = "path-shared"
    head = ["algorithm"]
    for transport in TRANSPORTS:
        head += [f"{transport}, two paths", "the TCP", "share of the two paths", "expected"]
    rows = []
    for cc in labels(records, name, "cc"):
        row = [without_prefix(cc)]
        for transport in TRANSPORTS:
            cells = of(records, name, cc=cc, transport=transport)
            both, one = (
                [_part(flow, "goodput_mbit")(cell) or 0.0 for cell in cells]
                for flow in ("multipath", "single")
            )
            row += [shown(both), shown(one)]
            row.append(shown(b / (b + o) for b, o in zip(both, one, strict=True)))
            row.append(shown(map(_expected, cells)) if cc in _ONE_TCP else NONE)
        rows.append(row)
    return pages.rows(head, rows)


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
    for rate in labels(records, name, "rate"):
        goodputs = [
            [
                cell["values"]["goodput_mbit"]
                for cell in of(records, name, rate=rate, transport=transport)
            ]
            for transport in ("tcp", "quic")
        ]
        middle = [median(found) if found else None for found in goodputs]
        known = middle[0] and middle[1]
        ratio = f"{middle[1] / middle[0]:.3f}" if known and middle[0] and middle[1] else NONE
        rows.append([f"{rate:g}", *(shown(found, 1) for found in goodputs), ratio])
    return pages.rows(["link, Mbit/s", "TCP", "QUIC", "QUIC over TCP"], rows)


_TABLES = {
    "mpquic": _mpquic,
    "mptcp-open": _mptcp_open,
    "failures": _failures,
    "shared": _shared,
    "single": _single,
}
