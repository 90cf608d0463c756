"""The comparison as a Markdown table: every cell, the kernel's figure, ours, and the difference."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tcplab.algorithms import is_own, without_prefix
from tcplab.cc import cells

# What may differ, in percent: goodput, mean window, mean RTT.
BOUNDS = {"goodput_mbit": 3.0, "mean_cwnd": 5.0, "mean_rtt_ms": 5.0}
_OWN = {theirs: ours for ours, theirs in cells.KERNEL_NAME.items()}

Pair = dict[bool, dict[str, Any]]


def runs(lines: Iterable[str]) -> dict[tuple[str, str], Pair]:
    """By (algorithm, condition): the kernel's run (False) and ours, the last ones of each."""
    out: dict[tuple[str, str], Pair] = {}
    for line in lines:
        run = json.loads(line)
        name = run["cell"]["algorithm"]
        bare = without_prefix(name)
        key = (_OWN.get(bare, bare), run["cell"]["name"])
        out.setdefault(key, {})[is_own(name)] = run
    return out


def pairs(lines: Iterable[str]) -> dict[tuple[str, str], Pair]:
    """As runs(), of each the flow that is compared."""
    found = runs(lines)
    return {key: {own: run["flows"][0] for own, run in pair.items()} for key, pair in found.items()}


def percent(theirs: float, ours: float) -> float:
    return 100 * (ours / theirs - 1) if theirs else 0.0


def row(key: tuple[str, str], pair: Pair) -> str:
    """One line; an asterisk marks what is outside its bound."""
    columns = [key[0], key[1]]
    for metric, bound in BOUNDS.items():
        theirs, ours = pair[False][metric], pair[True][metric]
        difference = percent(theirs, ours)
        mark = "" if abs(difference) <= bound else " *"
        columns.append(f"{theirs:.2f} → {ours:.2f} ({difference:+.1f} %{mark})")
    return "| " + " | ".join(columns) + " |"


def costs(lines: Iterable[str], condition: str = "clean") -> str:
    """Instructions (virtual nanoseconds) that the kernel spends on an acknowledgement."""
    out = "| algorithm | the kernel's | ours | more |\n|---|---|---|---|\n"
    for (algorithm, name), pair in sorted(runs(lines).items()):
        if name == condition and len(pair) == 2:
            theirs, ours = pair[False]["ack_ns"], pair[True]["ack_ns"]
            out += f"| {algorithm} | {theirs:.0f} | {ours:.0f} | {ours - theirs:.0f} |\n"
    return out


def table(file: Path) -> str:
    found = pairs(file.read_text().splitlines())
    complete = {key: pair for key, pair in found.items() if len(pair) == 2}
    head = "| algorithm | condition | goodput, Mbit/s | mean window, packets | mean RTT, ms |\n"
    head += "|---|---|---|---|---|\n"
    return head + "\n".join(row(key, complete[key]) for key in sorted(complete)) + "\n"
