"""The tables of docs/measured/results.md, each between two marks: `NAME PLACE`.  A table of `all`
has records of every place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcplab.studies import page as pages
from tcplab.studies.cells import Record
from tcplab.studies.page import of
from tcplab.studies.pilot.targets import bounds_of, verdicts

Results = dict[str, Any]

_TOOLS = {
    "none": "no tool",
    "tcpilot": "tcpilot",
    "tcpilot-few": "tcpilot, new path",
    "tcpilot-learned": "tcpilot, learned path",
    "tcpilot-throughput": "tcpilot, learned path, tuned for throughput",
    "tcpilot-latency": "tcpilot, learned path, tuned for latency",
    "tcpilot-bbr": "tcpilot, another algorithm each time",
    "tcpilot-cubic": "tcpilot, cubic its only arm",
    "settled": "tcpilot, cubic its only arm, no tunings",
    "settled-throughput": "the same, tuned for throughput",
    "settled-latency": "the same, tuned for latency",
    "limit": "limit: asks for the callbacks alone",
    "limit-set": "limit that sets bbr",
    "limit-random": "limit and a random number",
    "limit-lookup": "limit and two look-ups of the path",
    "limit-storage": "limit and the socket's storage",
    "limit-record": "limit and a record to a ring",
    "floor": "floor: all of these but bbr",
    "floor-set": "floor that sets bbr",
    "bpftune-conn": "bpftune, connection tuner alone",
    "bpftune": "bpftune",
}


def renewed(page: str, records: list[Record]) -> str:
    """The page with its tables renewed."""

    def table(name: str, place: str) -> str:
        found = records if place == "all" else pages.at(records, place)
        mine = found if name == "origin" else of(found, name)
        return _TABLES[name](mine) if mine else pages.NOT_RUN

    return pages.renewed(page, table)


def _rows(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    return pages.rows(head, [list(map(str, line)) for line in lines])


def verdict_lines(record: Record) -> str:
    """A line per target: whether it is met, by what figure."""
    return "".join(
        f"- {'met' if v.met else '**missed**'}: {v.what}: {v.measured}\n" for v in verdicts(record)
    )


def _name(record: Record) -> str:
    """Its labels, or its campaign."""
    return ", ".join(map(str, record["labels"].values())) or record["campaign"]


def _cost(results: Results) -> str:
    rows = [
        [_TOOLS[tool], kind, c["ns_per_event"], c["events_per_pair"], c["ns_per_pair"]]
        + [f"{min(c['values'])} to {max(c['values'])}"]
        + [f"{c['ns_per_pair'] / least:.2f}" for least in bounds_of(results, tool, kind)]
        for tool, kinds in results.items()
        for kind, c in kinds.items()
        if kind != "decisions"
    ]
    head = ["", "traffic", "ns per event", "events per pair", "ns per pair", "of all rounds"]
    return _rows([*head, "times the limit", "times the floor"], rows)


def _tunings(results: Results) -> str:
    rows = [
        [_TOOLS[tool], r["median"], ", ".join(map(str, r["values"])), r["to_peer"]]
        for tool, r in results.items()
    ]
    return _rows(["", "ns per event", "of each round", "to bpftune's"], rows)


def _rounds(unit: str, scale: float) -> Callable[[Results], str]:
    def table(results: Results) -> str:
        rows = [
            [_TOOLS[tool], f"{r['median'] / scale:.0f}", f"{r['ratio']:.3f}", len(r["values"])]
            for tool, r in results.items()
        ]
        return _rows(["", f"median {unit}", "ratio", "rounds"], rows)

    return table


def _memory(results: Results) -> str:
    rows = [
        [at, f"{r['rss_kb'] / 1000:.1f}", f"{r['peak_kb'] / 1000:.1f}"]
        for at, r in results["resident"].items()
    ]
    return _rows(["", "resident MB", "peak MB"], rows)


def _scale(record: Record) -> str:
    r = record["results"]
    rows = [
        ["destinations", record["parameters"]["distinct"]],
        ["paths kept, at most", f"{r['paths']['spread']}, {r['paths_max']}"],
        ["connections to hot destinations", r["hot_connections"]],
        ["of these remembered", sum(r["hot_path_connections"])],
        ["connections held", record["parameters"]["held"]],
        ["daemon's resident MB", f"{r['resident']['rss_kb'] / 1000:.1f}"],
    ]
    return _rows(["", ""], rows)


def _each(table: Callable[[Record], str]) -> Callable[[Sequence[Record]], str]:
    """A table and its targets for each record, named if there are several."""

    def tables(records: Sequence[Record]) -> str:
        parts = []
        for record in records:
            parts += [f"{_name(record)}\n"] if len(records) > 1 else []
            parts += [table(record), verdict_lines(record)]
        return "\n".join(parts)

    return tables


def _of_results(table: Callable[[Results], str]) -> Callable[[Sequence[Record]], str]:
    return _each(lambda record: table(record["results"]))


def _origin(records: Sequence[Record]) -> str:
    """Commands and commits."""
    rows = [
        [
            f"{r['campaign']}: {_name(r)}" if r["labels"] else _name(r),
            f"`{r['command']}`",
            r["commit"],
            r["kernel"],
            _where(r),
            r["wall_s"],
        ]
        for r in records
    ]
    head = ["", "command", "commit", "kernel", "place", "wall s"]
    return _rows(head, rows)


def _where(record: Record) -> str:
    if record["place"] == "host":
        return "this host"
    return "machine, virtual time" if record["virtual_time"] else "machine"


_TABLES: dict[str, Callable[[Sequence[Record]], str]] = {
    "cost": _of_results(_cost),
    "tunings": _of_results(_tunings),
    "short": _of_results(_rounds("connections/s", 1)),
    "bulk": _of_results(_rounds("Mbit/s", 1e6)),
    "memory": _of_results(_memory),
    "scale": _each(_scale),
    "origin": _origin,
}
