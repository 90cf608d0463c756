"""The comparison as a Markdown table: every cell, the kernel's figure, ours, and the difference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind

from tcplab.algorithms import is_own, without_prefix
from tcplab.studies.cc import cells

# Allowed differences, in percent: goodput, mean window, mean RTT.
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
    """One line; an asterisk marks figures outside their bounds."""
    columns = [key[0], key[1]]
    for metric, bound in BOUNDS.items():
        theirs, ours = pair[False][metric], pair[True][metric]
        difference = percent(theirs, ours)
        mark = "" if abs(difference) <= bound else " *"
        columns.append(f"{theirs:.2f} → {ours:.2f} ({difference:+.1f} %{mark})")
    return "| " + " | ".join(columns) + " |"


def repeated(lines: Iterable[str]) -> dict[tuple[str, str], dict[bool, list[dict[str, Any]]]]:
    """By (algorithm, condition): the flow compared, of each start of the second flow or seed of
    the losses that both have run."""
    out: dict[tuple[str, str], dict[bool, list[dict[str, Any]]]] = {}
    for (algorithm, name), pair in pairs(lines).items():
        if len(pair) == 2:
            family = re.sub(r"-(seed-\d+|\d+ms)$", "", name)
            of = out.setdefault((algorithm, family), {False: [], True: []})
            for own, flow in pair.items():
                of[own].append(flow)
    return {key: of for key, of in out.items() if len(of[True]) > 2}


def difference(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """Of the means, and its 95 % interval by Welch's test, in percent of theirs."""
    interval = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    whole = float(np.mean(theirs)) / 100
    middle = float(np.mean(ours)) / whole - 100
    return middle, float(interval.low) / whole, float(interval.high) / whole


def means(lines: Iterable[str]) -> str:
    """Of repeated runs: means with standard deviations, and how far they are apart.

    An asterisk marks means that are outside the bound, and whose interval leaves out zero.
    """
    out = "| algorithm | condition | runs | goodput, Mbit/s | mean window, packets "
    out += "| mean RTT, ms |\n|---|---|---|---|---|---|\n"
    for (algorithm, family), of in sorted(repeated(lines).items()):
        columns = [algorithm, family, str(len(of[True]))]
        for metric, bound in BOUNDS.items():
            theirs, ours = ([flow[metric] for flow in of[own]] for own in (False, True))
            middle, low, high = difference(theirs, ours)
            mark = " *" if abs(middle) > bound and (low > 0 or high < 0) else ""
            both = (f"{np.mean(v):.2f} ± {np.std(v, ddof=1):.2f}" for v in (theirs, ours))
            columns.append(f"{' → '.join(both)} ({middle:+.1f} %: {low:+.0f} to {high:+.0f}{mark})")
        out += "| " + " | ".join(columns) + " |\n"
    return out


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
