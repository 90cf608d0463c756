"""From sections to results: pure, so that they can be made again from the raw output."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt
from statistics import mean, median, stdev
from typing import Any

from tcplab.engine.tuners import bpftune_table
from tcplab.studies.pilot.sections import Section, first, select

Results = dict[str, Any]


def program_totals(section: Section, kind: str = "sock_ops") -> tuple[int, int]:
    """Nanoseconds and events so far, summed over the programs of one type.

    Both fields are absent of a program that never ran.
    """
    programs = [p for p in section.json() if p["type"] == kind]
    return sum(p.get("run_time_ns", 0) for p in programs), sum(
        p.get("run_cnt", 0) for p in programs
    )


def tools_of(sections: Sequence[Section], what: str) -> list[str]:
    """In the order of their first appearance."""
    return list(dict.fromkeys(s.label["tool"] for s in select(sections, what=what)))


def cost(sections: Sequence[Section]) -> Results:
    """Per tool and kind of traffic: events and nanoseconds per connection pair, of the median
    round."""
    results: Results = {}
    for flow in select(sections, what="flow"):
        which = {name: flow.label[name] for name in ("tool", "kind", "round")}
        (ns, events), (ns_after, events_after) = (
            program_totals(first(sections, what="programs", at=at, **which))
            for at in ("before", "after")
        )
        last = flow.json_lines()[-1]
        pairs = last["connections"] if which["kind"] == "short" else last["count"]
        rounds = results.setdefault(which["tool"], {}).setdefault(which["kind"], [])
        rounds.append(per_pair(ns_after - ns, events_after - events, pairs))
    for tool, kinds in results.items():
        for kind, rounds in kinds.items():
            kinds[kind] = _middle(rounds)
        statuses = list(select(sections, what="status", tool=tool, at="end"))
        kinds["decisions"] = decisions(statuses[0]) if statuses else {}
    return results


def _middle(rounds: list[Results]) -> Results:
    """The round of the median cost, with the costs of all."""
    by_cost = sorted(rounds, key=lambda r: r["ns_per_pair"])
    return {**by_cost[len(by_cost) // 2], "values": [r["ns_per_pair"] for r in rounds]}


def tunings(sections: Sequence[Section]) -> Results:
    """Per tool: nanoseconds per event in each round, their median, and that to the peer's.

    The median, since a timer that fires while a program runs is counted with it.
    """
    values: dict[str, list[float]] = {}
    for last in select(sections, what="short"):
        which = {"tool": last.label["tool"], "round": last.label["round"]}
        readings = [
            program_totals(first(sections, what="programs", at=at, **which))
            for at in ("start", "short")
        ]
        (ns, events), (ns_after, events_after) = readings
        pairs = last.json_lines()[-1]["connections"]
        cost_of = per_pair(ns_after - ns, events_after - events, pairs)
        values.setdefault(which["tool"], []).append(cost_of["ns_per_event"])
    peer = median(values["bpftune-conn"])
    return {
        tool: {"values": v, "median": median(v), "to_peer": round(median(v) / peer, 3)}
        for tool, v in values.items()
    }


def per_pair(nanoseconds: int, events: int, pairs: int) -> Results:
    """ValueError where nothing was counted: the tool was not attached."""
    if not events:
        raise ValueError("a tool's programs saw no event")
    return {
        "pairs": pairs,
        "events": events,
        "ns": nanoseconds,
        "ns_per_event": round(nanoseconds / events, 1),
        "events_per_pair": round(events / pairs, 2),
        "ns_per_pair": round(nanoseconds / pairs),
    }


def decisions(status: Section) -> dict[str, int]:
    """The reasons that occurred, and how often."""
    return {why: n for why, n in status.json()["connections"].items() if n}


def _rounds(sections: Sequence[Section], what: str, value: Callable[[Section], float]) -> Results:
    """Values per tool, and its median in relation to that without a tool."""
    values = {
        tool: [value(s) for s in select(sections, what=what, tool=tool)]
        for tool in tools_of(sections, what)
    }
    base = median(values["none"])
    return {
        tool: {"values": v, "median": median(v), "ratio": round(median(v) / base, 4)}
        for tool, v in values.items()
    }


def short(sections: Sequence[Section]) -> Results:
    """Connections per second."""

    def rate(section: Section) -> float:
        report = section.json_lines()[-1]
        if report["errors"]:
            raise ValueError(f"short connections failed: {report['first_error']}")
        return float(report["connections_per_s"])

    return _rounds(sections, "short", rate)


def bulk(sections: Sequence[Section]) -> Results:
    """Mean goodput of a round's connections, in bits per second."""
    return _rounds(sections, "bulk", lambda s: mean(goodputs(s)))


def flows(section: Section) -> list[dict[str, Any]]:
    """flowgen's report on each connection, without its summary."""
    return [line for line in section.json_lines() if "index" in line]


def goodputs(section: Section) -> list[float]:
    """Goodput of each connection in bits per second; one that failed counts as 0."""
    return [0.0 if f["error"] else float(f["goodput_bits_per_s"]) for f in flows(section)]


def choice(sections: Sequence[Section]) -> Results:
    """Goodput of each way of choosing, what it chose, and what was best."""
    tools = {
        tool: _way(first(sections, what="flows", tool=tool), tool.startswith("static"))
        for tool in tools_of(sections, "flows")
    }
    statics = {tool.removeprefix("static "): w for tool, w in tools.items() if _is_static(tool)}
    best = max(statics, key=lambda arm: statics[arm]["mean_bits_per_s"])
    chosen: dict[str, int] = tools["tcpilot"]["arms"]
    most = max(chosen, key=lambda arm: chosen[arm])
    base = tools["cubic"]["mean_bits_per_s"]
    return {
        "ways": tools,
        "best_static": best,
        "most_chosen": most,
        "most_chosen_to_best": ratio(
            statics[most]["mean_bits_per_s"], statics[best]["mean_bits_per_s"]
        ),
        "ratio": {tool: ratio(way["mean_bits_per_s"], base) for tool, way in tools.items()},
        "paths": first(sections, what="paths").json()["paths"],
        "explain": first(sections, what="explain").json(),
        "decisions": decisions(first(sections, what="status")),
        "bpftune_table": bpftune_table(first(sections, what="table").text),
    }


def _is_static(tool: str) -> bool:
    return tool == "cubic" or tool.startswith("static ")


def ratio(value: float, base: float) -> float:
    return round(value / base, 4)


def _way(section: Section, static: bool) -> Results:
    """The mean leaves out the first third, 25 of 75, where a tool still learns; and so for
    cubic, with which it is compared."""
    rates = goodputs(section)
    learned = rates if static else rates[len(rates) // 3 :]
    reports = flows(section)
    return {
        "mean_bits_per_s": round(mean(learned)),
        "mean_all_bits_per_s": round(mean(rates)),
        "standard_error": round(stdev(learned) / sqrt(len(learned))) if len(learned) > 1 else None,
        "counted": len(learned),
        "arms": dict(Counter(f["cc_start"] for f in reports)),
        "arms_at_end": dict(Counter(f["cc_end"] for f in reports)),
        "errors": sum(1 for f in reports if f["error"]),
        "flows": [
            {key: f[key] for key in _KEPT} | {"bits_per_s": round(r)}
            for f, r in zip(reports, rates, strict=True)
        ],
    }


_KEPT = ("cc_start", "cc_end", "retransmits", "min_rtt_us", "delivery_rate_bytes_per_s", "error")


def memory(sections: Sequence[Section]) -> Results:
    """Resident and peak kB at each stage."""
    stages = {s.label["at"]: s.json_lines()[-1] for s in select(sections, what="resident")}
    return {"resident": stages, "paths": first(sections, what="status").json()["paths"]}


def scale(sections: Sequence[Section]) -> Results:
    """Errors, the bound on paths, and what became of the busiest paths."""
    spread = first(sections, what="spread").json_lines()[-1]
    after = {s.label["at"]: s.json() for s in select(sections, what="status")}
    hot = [json.loads(line) for line in first(sections, what="hot").text.splitlines() if line]
    return {
        "spread": {k: v for k, v in spread.items() if k != "hot"},
        "hold": first(sections, what="hold").json_lines()[-1],
        "paths": {at: status["paths"] for at, status in after.items()},
        "paths_max": after["spread"]["paths_max"],
        "degraded": {at: status["degraded"] for at, status in after.items()},
        "hot_connections": spread["hot_connections"],
        "hot_path_connections": [connections_of(answer) for answer in hot],
        "resident": first(sections, what="resident").json(),
        "log": first(sections, what="log").text,
    }


def connections_of(explained: Any) -> int:
    """Connections that the explained paths remember together."""
    paths = explained["paths"] if isinstance(explained, dict) else explained
    return sum(int(p.get("path", p)["connections"]) for p in paths)


SUMMARIES: dict[str, Callable[[Sequence[Section]], Results]] = {
    "cost": cost,
    "tunings": tunings,
    "short": short,
    "bulk": bulk,
    "choice": choice,
    "memory": memory,
    "scale": scale,
}
