"""Writes docs/measured/results.md from the published records; nothing in it is typed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcplab.studies.pilot.records import faults
from tcplab.studies.pilot.targets import bounds_of, verdicts

Results = dict[str, Any]

_TOOLS = {
    "none": "no tool",
    "cubic": "cubic",
    "tcpilot": "tcpilot",
    "tcpilot-few": "tcpilot, new path",
    "tcpilot-learned": "tcpilot, learned path",
    "tcpilot-throughput": "tcpilot, learned path, tuned for throughput",
    "tcpilot-latency": "tcpilot, learned path, tuned for latency",
    "tcpilot-bbr": "tcpilot, another algorithm each time",
    "thompson-few": "tcpilot (thompson), new path",
    "thompson-learned": "tcpilot (thompson), learned path",
    "thompson-throughput": "tcpilot (thompson), learned path, tuned for throughput",
    "thompson-latency": "tcpilot (thompson), learned path, tuned for latency",
    "thompson-bbr": "tcpilot (thompson), another algorithm each time",
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


def render(loaded: dict[str, Results]) -> str:
    """The whole document."""
    return "\n\n".join([_HEAD, *sections(loaded), _provenance(loaded)]) + "\n"


def sections(loaded: dict[str, Results]) -> list[str]:
    """A section for each kind of record."""
    choices = {n: r for n, r in loaded.items() if n.startswith("choice-")}
    parts = [_choice(choices)] if choices else []
    parts += [_algorithms(n, r) for n, r in choices.items()]
    return parts + [section(loaded[n]) for n, section in _SECTIONS.items() if n in loaded]


_HEAD = """\
# Results

Written by `python -m tcplab.studies.pilot report` from `docs/measured/data/pilot.jsonl.xz`; do not
edit. The campaigns are in `lab/scenarios/pilot`. Rates in virtual time are relative to a
machine that executes one instruction per nanosecond: only their ratios mean something."""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def verdict_lines(name: str, results: Results) -> str:
    """A line per target: whether it is met, by what figure."""
    return "\n".join(
        f"- {'met' if v.met else '**missed**'}: {v.what}: {v.measured}"
        for v in verdicts(name, results)
    )


def with_error(way: Results) -> str:
    """The mean and its standard error, which a few noisy connections leave wide."""
    error = way["standard_error"]
    mean = mbit(way["mean_bits_per_s"])
    return f"{mean} ± {error / 1e6:.2g}" if error else mean


def mbit(bits_per_s: float) -> str:
    return f"{bits_per_s / 1e6:.1f}" if bits_per_s < 1e8 else f"{bits_per_s / 1e6:.0f}"


def _choice(choices: dict[str, Results]) -> str:
    rows, lines = [], []
    for name, whole in choices.items():
        r, ways = whole["results"], whole["results"]["ways"]
        static = [with_error(w) for n, w in ways.items() if n.startswith("static")]
        adaptive = [f"{with_error(ways[t])} ({r['ratio'][t]:.2f})" for t in ("tcpilot", "bpftune")]
        cubic = with_error(ways["cubic"])
        chosen = ways["tcpilot"]["arms"][r["most_chosen"]]
        most = f"{r['most_chosen']}, {chosen} of {whole['parameters']['count']}"
        short_name = name.removeprefix("choice-")
        rows.append([_marked(short_name, whole), cubic, *static, *adaptive, most, r["best_static"]])
        lines.append(f"{short_name}\n{verdict_lines('choice', whole)}")
    head = ["Mbit/s", "cubic", "bbr", "htcp", "dctcp", "tcpilot", "bpftune", "chose", "best static"]
    return "\n\n".join(["## Choice", _CHOICE, table(head, rows), *lines])


def _marked(name: str, whole: Results) -> str:
    """A name, with a mark if the record does not meet what `publish` asks for."""
    return f"{name} (provisional)" if faults(whole) else name


_CHOICE = """\
Mean goodput at the receiver, with its standard error. `veth-…` is the published set-up (netem
on the sender's device, offloads on); `path-…` has a router, netem there, one segment per packet.
For tcpilot, bpftune and cubic the first third of the connections is left out (25 of 75), and the
number in parentheses is the ratio to cubic. For the other static algorithms all connections count.
tcp_ecn is 1, and a policy lists dctcp, so that it may be chosen. A dctcp that is set before the
connection, as an application would, is Reno if ECN was not negotiated. Compare within a row: some
rows are of an earlier pipeline and machine, which the end of this page describes."""


def _algorithms(name: str, whole: Results) -> str:
    """tcpilot's own cost table of the sender's path."""
    paths = [p for p in whole["results"]["paths"] if p["netns"] == "left"]
    rows = [
        [a["name"], a["cost"], _chosen(a), a["greedy"], a["rescued"], a["min_rtt_us"], _mega(a)]
        for path in paths
        for a in path.get("algorithms") or path["arms"]
    ]
    head = ["algorithm", "cost", "chosen", "greedy", "rescued", "min RTT µs", "max rate MB/s"]
    return f"### tcpilot's table: {name.removeprefix('choice-')}\n\n{table(head, rows)}"


def _chosen(algorithm: Results) -> int:
    """Records from before tcpilot's JSON had a schema say `count`, and `arms`."""
    return int(algorithm["chosen"] if "chosen" in algorithm else algorithm["count"])


def _mega(algorithm: Results) -> str:
    rate = algorithm["max_delivery_rate"]
    return "" if rate is None else f"{rate / 1e6:.1f}"


def _cost(whole: Results) -> str:
    results = whole["results"]
    rows = [
        [_TOOLS[tool], kind, c["ns_per_event"], c["events_per_pair"], c["ns_per_pair"]]
        + [f"{min(c['values'])} to {max(c['values'])}"]
        + [f"{c['ns_per_pair'] / least:.2f}" for least in bounds_of(results, tool, kind)]
        for tool, kinds in results.items()
        for kind, c in kinds.items()
        if kind != "decisions"
    ]
    head = ["", "traffic", "ns per event", "events per pair", "ns per pair", "of all rounds"]
    head += ["times the limit", "times the floor"]
    what = (
        "Time of both ends of each connection, from kernel.bpf_stats_enabled; the median of the"
        " rounds. The limit is a program that asks for the same callbacks and does nothing else."
        " The floor does the work that every design needs that learns about paths. A row that sets"
        " bbr is compared with the limit and the floor that set it."
    )
    return "\n\n".join(
        ["## Cost of the programs", what, table(head, rows), verdict_lines("cost", whole)]
    )


def _tunings(whole: Results) -> str:
    rows = [
        [_TOOLS[tool], r["median"], ", ".join(map(str, r["values"])), r["to_peer"]]
        for tool, r in whole["results"].items()
    ]
    head = ["", "ns per event", "of each round", "to bpftune's"]
    what = "Short connections, both ends, after 450 pairs on paths that have carried 300 KB too."
    lines = verdict_lines("tunings", whole)
    return "\n\n".join(["## Cost of the tunings", what, table(head, rows), lines])


def _rounds(title: str, unit: str, scale: float) -> Callable[[Results], str]:
    def section(whole: Results) -> str:
        rows = [
            [_TOOLS[tool], f"{r['median'] / scale:.0f}", f"{r['ratio']:.3f}", len(r["values"])]
            for tool, r in whole["results"].items()
        ]
        head = ["", f"median {unit}", "ratio", "rounds"]
        lines = verdict_lines(whole["experiment"], whole)
        return "\n\n".join([f"## {title}", table(head, rows), lines])

    return section


def _memory(whole: Results) -> str:
    resident = whole["results"]["resident"]
    rows = [
        [at, f"{r['rss_kb'] / 1000:.1f}", f"{r['peak_kb'] / 1000:.1f}"]
        for at, r in resident.items()
    ]
    head = ["", "resident MB", "peak MB"]
    return "\n\n".join(["## Memory", table(head, rows), verdict_lines("memory", whole)])


def _scale(whole: Results) -> str:
    r = whole["results"]
    rows = [
        ["destinations", whole["parameters"]["distinct"]],
        ["paths kept, at most", f"{r['paths']['spread']}, {r['paths_max']}"],
        ["connections to hot destinations", r["hot_connections"]],
        ["of these remembered", sum(r["hot_path_connections"])],
        ["connections held", whole["parameters"]["held"]],
        ["daemon's resident MB", f"{r['resident']['rss_kb'] / 1000:.1f}"],
    ]
    return "\n\n".join(["## Scale", table(["", ""], rows), verdict_lines("scale", whole)])


_SECTIONS: dict[str, Callable[[Results], str]] = {
    "cost": _cost,
    "tunings": _tunings,
    "short": _rounds("Short connections", "connections/s", 1),
    "bulk": _rounds("Bulk transfers with nothing to gain", "Mbit/s", 1e6),
    "memory": _memory,
    "scale": _scale,
}


_OLD = "python -m tcplab."
_BEFORE = """\
A command that begins with `python -m` is one of the record's commit, which later commits no longer
have. Today each experiment is a campaign of the same name, `tcplab run NAME`; only short is
`short-direct`, choice-veth-… are the conditions of `choice-direct`, and choice-path-… those of
`choice`. Goodput of those commands is of all bytes, until the receiver had the last. The campaigns
count the bytes that are acknowledged within a connection's own time, as the receiver's figure of
iperf3 does in the published tables. Their machine also copies memory faster than that of records
from before commit 0dd840c, so rates of the two do not compare."""


def _provenance(loaded: dict[str, Results]) -> str:
    rows = [
        [_marked(n, r), f"`{r['command']}`", r["commit"], r["kernel"], r["where"], r["wall_s"]]
        for n, r in loaded.items()
    ]
    head = ["", "command", "commit", "kernel", "place", "wall s"]
    parts = ["## Origin of the figures", table(head, rows)]
    if any(_OLD in r["command"] for r in loaded.values()):
        parts.append(_BEFORE)
    marked = {n: wrong for n, r in loaded.items() if (wrong := faults(r))}
    if marked:
        parts.append("Provisional, to be measured anew:")
        parts.append("\n".join(f"- {n}: {', '.join(wrong)}" for n, wrong in marked.items()))
    return "\n\n".join(parts)
