"""Builds a cell from the tables of a scenario, and checks what concerns several keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tcplab.scenario.errors import Place, Problem
from tcplab.scenario.fields import read, suggestion
from tcplab.scenario.model import ABSENT, SYSTEM, Cell, Change, Flow, Link, Tuner, Watch
from tcplab.scenario.top import Top

MOST_LINKS = 8


def read_cell(top: Top, table: dict[str, Any], problems: list[Problem]) -> Cell | None:
    """None, with problems noted, when the tables do not make a cell."""
    links = _list(Link, table, "link", problems)
    flows = _list(Flow, table, "flow", problems)
    changes = _list(Change, table, "change", problems)
    tuner = read(Tuner, table.get("tuner", {}), ("tuner",), problems)
    watch = read(Watch, table.get("watch", {}), ("watch",), problems)
    sysctl = table.get("sysctl", {})
    if not isinstance(sysctl, dict):
        problems.append(Problem(("sysctl",), "sysctl: a table is expected"))
    if problems or tuner is None or watch is None:
        return None
    cell = Cell(
        duration_s=top.duration_s,
        sample_ms=top.sample_ms,
        drain_s=top.drain_s,
        links=tuple(links),
        flows=tuple(flows),
        tuner=tuner,
        changes=tuple(changes),
        sysctl={key: str(value) for key, value in sysctl.items()},
        watch=watch,
    )
    _check_links(cell, problems)
    _check_flows(cell, problems)
    _check_changes(cell, problems)
    return cell


def _list(cls: type[Any], table: dict[str, Any], key: str, problems: list[Problem]) -> list[Any]:
    raw = table.get(key, [])
    if not isinstance(raw, list):
        problems.append(Problem((key,), f"{key}: write [[{key}]], a list of tables"))
        return []
    found = [read(cls, item, (key, position), problems) for position, item in enumerate(raw)]
    return [item for item in found if item is not None]


def _check_links(cell: Cell, problems: list[Problem]) -> None:
    if not 1 <= len(cell.links) <= MOST_LINKS:
        problems.append(Problem(("link",), f"link: 1 to {MOST_LINKS} are possible"))
    _check_names("link", [link.name for link in cell.links], problems)
    for position, link in enumerate(cell.links):
        place: Place = ("link", position)
        by_rate = link.queue.endswith(("ms", "bdp"))
        if by_rate and link.rate_mbit and link.queue.endswith("bdp") and not link.rtt_ms:
            text = f"queue: {link.queue!r} needs rtt_ms above 0; give packets, bytes or ms"
            problems.append(Problem((*place, "queue"), text))
        if link.qdisc == "cake" and not link.rate_mbit:
            problems.append(Problem((*place, "qdisc"), "cake needs rate_mbit"))
        if link.qdisc.startswith("red") and not link.rate_mbit:
            problems.append(Problem((*place, "qdisc"), "red needs rate_mbit"))
        if link.police_burst.endswith("bdp") and link.police_mbit and not link.rtt_ms:
            text = f"police_burst: {link.police_burst!r} needs rtt_ms above 0"
            problems.append(Problem((*place, "police_burst"), text))
        if link.jitter_ms and link.jitter_ms > link.rtt_ms:
            text = f"jitter_ms: {link.jitter_ms:g} is more than rtt_ms, {link.rtt_ms:g}"
            problems.append(Problem((*place, "jitter_ms"), text))
        if link.reorder_percent and not link.rtt_ms:
            text = "reorder_percent needs rtt_ms: what is reordered skips the delay"
            problems.append(Problem((*place, "reorder_percent"), text))


def _check_flows(cell: Cell, problems: list[Problem]) -> None:
    if not cell.flows:
        problems.append(Problem(("flow",), "flow: at least one [[flow]] is needed"))
    _check_names("flow", [flow.name for flow in cell.flows], problems)
    for position, flow in enumerate(cell.flows):
        for key, what in (*_wrong_times(cell, flow), *_wrong_kinds(cell, flow)):
            problems.append(Problem(("flow", position, key), f"{key}: {what}"))
    if cell.flows and not cell.present():
        problems.append(Problem(("flow",), "flow: every flow has cc 'none', nothing would run"))


def _wrong_times(cell: Cell, flow: Flow) -> Iterator[tuple[str, str]]:
    if flow.start_s >= cell.duration_s:
        yield "start_s", f"{flow.start_s:g} is not before duration_s, {cell.duration_s:g}"
    elif flow.duration_s and flow.start_s + flow.duration_s > cell.duration_s:
        yield "duration_s", "it ends after the whole, whose duration_s is too short"
    if flow.bytes and (flow.each_s or flow.duration_s):
        yield "bytes", "give bytes or a time, not both"


def _wrong_kinds(cell: Cell, flow: Flow) -> Iterator[tuple[str, str]]:
    if not flow.name:
        yield "name", "every flow needs one"
    if flow.kind != "bulk" and (flow.bytes or flow.each_s):
        yield "kind", f"bytes and each_s are for bulk, not for {flow.kind}"
    if flow.mptcp and len(cell.links) < 2:
        yield "mptcp", "it needs two [[link]]"
    if flow.mptcp and cell.tuner.name != "none":
        yield "mptcp", "tuners do not see MPTCP's subflows as connections; tuner none"
    if flow.cc not in (SYSTEM, ABSENT) and flow.kind == "short":
        yield "cc", "short connections are closed by the server; set the sysctl instead"


def _check_names(kind: str, names: list[str], problems: list[Problem]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            problems.append(Problem((kind, position), f"{kind} {name!r} is there twice"))


def _check_changes(cell: Cell, problems: list[Problem]) -> None:
    names = [link.name for link in cell.links]
    for position, change in enumerate(cell.changes):
        place: Place = ("change", position)
        if change.link not in names:
            text = f"link: there is no link {change.link!r}{suggestion(change.link, names)}"
            problems.append(Problem((*place, "link"), text))
            continue
        link = cell.links[names.index(change.link)]
        if change.at_s is None or change.at_s >= cell.duration_s:
            problems.append(Problem((*place, "at_s"), "at_s: a time before duration_s is needed"))
        if change.rate_mbit and not link.rate_mbit:
            text = "rate_mbit: this link has no rate that could change"
            problems.append(Problem((*place, "rate_mbit"), text))
