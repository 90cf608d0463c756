"""The experiments as scripts for the machine: pure text, made of guest/lib.sh's functions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.studies.pilot.floor import FLOORS

MODULES = ("tcp_bbr", "tcp_htcp", "tcp_dctcp", "sch_netem")
ARMS = ("cubic", "bbr", "htcp", "dctcp")
# dctcp as in the article: on every path that negotiated ECN, not only in a data center.
_CHOICE = f"algorithms = {json.dumps(ARMS)}"
ALL_ARMS = f'{_CHOICE}\n[[policy]]\nname = "all-arms"\n{_CHOICE}'
# On a host whose default is another one, which we may not change in its namespaces.
ANY_DEFAULT = 'replace_defaults = ["cubic", "reno", "bbr"]'
CUBIC_ONLY = 'algorithms = ["cubic"]'
# bpftune's tuner that does what tcpilot does, without its eight others.
BPFTUNE_CONN = "-a tcp_conn_tuner.so"
HOT = 10


@dataclass(frozen=True)
class Experiment:
    """What to run in one machine, in virtual time."""

    name: str
    script: Sequence[str]
    parameters: dict[str, Any]
    here: bool = False
    """On this host, in namespaces of its own, where only counts matter and not times."""

    def text(self, files: dict[str, Path], library: str) -> str:
        """The whole script; `files` are what it calls by variables of these names."""
        head = [f"{name}={shlex.quote(str(path))}" for name, path in files.items()]
        return "\n".join([library, *head, *self.script, "kill $server", ""])


def mark(**label: Any) -> str:
    return f"mark {shlex.quote(json.dumps(label))}"


def start(tool: str) -> list[str]:
    """Lines that start a tool: none, tcpilot, one of floor.py's programs, bpftune."""
    if tool in FLOORS:
        return [f"floor_start {tool}"]
    return {
        "none": [],
        "tcpilot": ["tcpilot_start ''"],
        "tcpilot-few": ["tcpilot_start ''"],
        "tcpilot-learned": ["tcpilot_start ''", *teach()],
        "tcpilot-any": [f"tcpilot_start {shlex.quote(ANY_DEFAULT)}"],
        "tcpilot-cubic": [f"tcpilot_start {shlex.quote(CUBIC_ONLY)}"],
        "tcpilot-throughput": [f"tcpilot_start {shlex.quote(tuned('throughput'))}", *teach()],
        "tcpilot-latency": [f"tcpilot_start {shlex.quote(tuned('latency'))}", *teach()],
        "tcpilot-bbr": [f"tcpilot_start {shlex.quote(BBR_LEARNED)}", *teach()],
        "settled": [f"tcpilot_start {shlex.quote(CUBIC_ONLY)}", *teach()],
        "settled-throughput": [settled("throughput"), *teach()],
        "settled-latency": [settled("latency"), *teach()],
        "bpftune": ["bpftune_start"],
        "bpftune-conn": [f"bpftune_start {BPFTUNE_CONN}"],
    }[tool]


# One arm, and not the default: every connection is switched to it.
BBR_LEARNED = 'algorithms = ["bbr"]\n[learner]\nmin_instances = 0'


COSTS = (
    "tcpilot-few",
    "tcpilot-learned",
    "tcpilot-throughput",
    "tcpilot-latency",
    "tcpilot-bbr",
)


def tuned(objective: str) -> str:
    """All that the objective chooses on a path that is no data center's."""
    return f'[tuning]\nobjective = "{objective}"\nnetwork = "long-fat"'


def settled(objective: str) -> str:
    return f"tcpilot_start {shlex.quote(CUBIC_ONLY + chr(10) + tuned(objective))}"


def teach() -> list[str]:
    """Connections large enough to be learned from, past the phase of few instances."""
    return ["flow bulk --bytes 300k --count 12 >/dev/null"]


def stop(tool: str) -> list[str]:
    if tool in FLOORS:
        return ["floor_stop"]
    return [] if tool == "none" else ["tool_stop"]


def counters(tool: str, **label: Any) -> list[str]:
    """Lines that record what the tool's programs have cost so far."""
    lines = [mark(what="programs", tool=tool, **label), "programs"]
    if tool.startswith(("tcpilot", "settled")):
        lines += [mark(what="status", tool=tool, **label), "ask status"]
    return lines


def cost(quick: bool) -> Experiment:
    """Events and instructions of the sockops programs, for short and for bulk connections, beside
    the least that such a program can cost.

    In rounds, since a timer that fires while a program runs is counted with it: their median is
    the cost.
    """
    rounds, pairs, bulk_bytes, bulk_count = (1, 200, "2M", 10) if quick else (9, 200, "2M", 8)
    flows = {
        "short": f"flow short --count {pairs}",
        "bulk": f"flow bulk --bytes {bulk_bytes} --count {bulk_count}",
    }
    script = ["network_direct", "serve", "sysctl -qw kernel.bpf_stats_enabled=1"]
    for tool in (*FLOORS, *COSTS, "bpftune-conn"):
        script += start(tool)
        for kind, number in [(kind, n) for kind in flows for n in range(rounds)]:
            label = {"kind": kind, "round": number}
            script += [mark(what="programs", tool=tool, at="before", **label), "programs"]
            script += [mark(what="flow", tool=tool, **label), flows[kind]]
            script += [mark(what="programs", tool=tool, at="after", **label), "programs"]
        script += counters(tool, at="end")[2:]
        script += stop(tool)
    parameters = {"rounds": rounds, "pairs": pairs, "bulk": [bulk_bytes, bulk_count]}
    return Experiment("cost", script, parameters)


def tunings(quick: bool) -> Experiment:
    """What tunings cost short connections, once a path has settled; with one arm, so that learning
    which is best moves nothing."""
    pairs, before, rounds = 100, 450, 1 if quick else 3
    tools = ("settled", "settled-throughput", "settled-latency")
    script = ["network_direct", "serve", "sysctl -qw kernel.bpf_stats_enabled=1"]
    for number, tool in [*((n, t) for n in range(rounds) for t in tools), (0, "bpftune-conn")]:
        script += [*start(tool), f"flow short --count {before} >/dev/null"]
        script += [*counters(tool, at="start", round=number)]
        script += [mark(what="short", tool=tool, round=number), f"flow short --count {pairs}"]
        script += [*counters(tool, at="short", round=number), *stop(tool)]
    parameters = {"pairs": pairs, "pairs_before": before, "rounds": rounds}
    return Experiment("tunings", script, parameters)


def _interleaved(name: str, tools: Sequence[str], rounds: int, flow: str) -> Experiment:
    """Each tool in turn, round after round, so that a drift meets all of them alike; bpftune with
    all its tuners once, at the end: it does not always stop when it is told to."""
    script = ["network_direct", "serve"]
    for number in range(rounds):
        for tool in tools:
            script += [*start(tool), mark(what=name, tool=tool, round=number), flow, *stop(tool)]
    script += [*start("bpftune"), mark(what=name, tool="bpftune", round=0), flow]
    return Experiment(name, script, {"tools": [*tools, "bpftune"], "rounds": rounds, "flow": flow})


def short(quick: bool) -> Experiment:
    """Connections per second, the server closing first."""
    tools = ["none", "limit", "limit-set", "floor", "floor-set"]
    tools += ["tcpilot-few", "tcpilot-learned", "tcpilot-bbr", "bpftune-conn"]
    count = 1000 if quick else 2000
    return _interleaved("short", tools, 1 if quick else 3, f"flow short --count {count}")


def bulk(quick: bool) -> Experiment:
    """Goodput where there is nothing to gain: no loss, no latency, no limit."""
    tools = ["none", "tcpilot-cubic", "tcpilot", "bpftune-conn"]
    flow = f"flow bulk --seconds 0.05 --count {20 if quick else 40}"
    return _interleaved("bulk", tools, 1 if quick else 3, flow)


def memory(quick: bool) -> Experiment:
    """Resident memory of the daemon: idle, with every path taken, during queries."""
    paths = 2000 if quick else 20000
    script = ["network_anyip", "serve", *start("tcpilot-any")]
    script += [mark(what="resident", at="idle"), "resident $tool"]
    script += [mark(what="spread"), f"spread --distinct {paths}"]
    script += [mark(what="resident", at="full"), "sleep 65; resident $tool"]
    script += [mark(what="resident", at="queries"), "for i in 1 2 3 4 5; do"]
    script += ["  ask paths >/dev/null; ask status >/dev/null; done; resident $tool"]
    script += [mark(what="status"), "ask status", *stop("tcpilot")]
    return Experiment("memory", script, {"distinct": paths}, here=True)


def scale(quick: bool) -> Experiment:
    """More destinations and more connections than the map of paths has room for."""
    distinct, held = (20000, 2000) if quick else (100000, 19900)
    script = ["ulimit -n 100000 2>/dev/null || ulimit -n hard"]
    script += ["network_anyip", "serve", *start("tcpilot-any")]
    script += [mark(what="spread")]
    script += [f"spread --distinct {distinct} --hot {HOT} --hot-share 0.2 >$runtime/spread"]
    script += ["cat $runtime/spread", mark(what="status", at="spread"), "ask status"]
    script += [mark(what="hot"), "explain_hot $runtime/spread"]
    script += [mark(what="resident"), "resident $tool"]
    script += [mark(what="hold"), f"flow hold --connections {held} --seconds 5 --wait 120"]
    script += [mark(what="status", at="hold"), "ask status"]
    script += [mark(what="log"), "tail -n 20 $runtime/tcpilot.log", *stop("tcpilot")]
    parameters = {"distinct": distinct, "hot": HOT, "hot_share": 0.2, "held": held}
    return Experiment("scale", script, parameters, here=True)
