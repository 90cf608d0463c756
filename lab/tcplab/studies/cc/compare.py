"""Boots a kernel, runs the cells in it, and keeps a JSON line for each."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tcplab.algorithms import PREFIX, is_own, without_prefix
from tcplab.studies.cc import cells
from tcplab.studies.cc.table import costs, means, table
from tcplab.vm import Machine, run

_HERE = Path(__file__).parent
_OWN_NAME = {theirs: ours for ours, theirs in cells.KERNEL_NAME.items()}
_MODULES = ("sch_netem", "sch_tbf", "sch_fq", "sch_red", "sch_codel", "cls_bpf")


def cells_of(
    algorithms: Sequence[str], conditions: Sequence[str], side: str = "both"
) -> list[dict[str, Any]]:
    """Each condition with each of the kernel's algorithms, followed by ours."""
    chosen = [c for c in cells.ALL if c.name in conditions]
    out = []
    for condition in chosen:
        for algorithm in algorithms:
            names = [f"{PREFIX}{algorithm}"]
            if algorithm in cells.COMPARED:
                names.insert(0, cells.kernel_name(algorithm))
            for name in names:
                if side != "both" and is_own(name) != (side == "ours"):
                    continue
                cell = asdict(condition) | {"algorithm": name}
                cell["ecn"] = cell["ecn"] or algorithm in ("dctcp", "prague")
                out.append(cell)
    return out


def shorten(chosen: list[dict[str, Any]], seconds: float | None) -> None:
    for cell in chosen:
        cell["seconds"] = seconds or cell["seconds"]


def compile_bpf(name: str, made: Path, *options: str) -> str:
    """Compiles bpf source `name` of this folder to `made`; returns its whole path."""
    include = f"/usr/include/{platform.machine()}-linux-gnu"
    command = ["clang", "-g", "-O2", "-target", "bpf", "-I", include, *options]
    subprocess.run([*command, "-c", str(_HERE / name), "-o", str(made)], check=True)
    return str(made.resolve())


def compile_losses(chosen: list[dict[str, Any]], out: Path) -> dict[str, str]:
    """An object for each rate and seed, by "rate-seed"."""
    made = {}
    for rate, seed in {(c["loss_per_mille"], c["seed"]) for c in chosen if c["loss_per_mille"]}:
        options = (f"-DPER_MILLE={rate}", f"-DSEED={seed}")
        file = out / f"loss-{rate}-{seed}.bpf.o"
        made[f"{rate}-{seed}"] = compile_bpf("loss.bpf.c", file, *options)
    return made


def what_to_load(name: str, objects: Path | None) -> str:
    """The object of that name below `objects`, if it is there; else the binary's own."""
    made = objects / f"{without_prefix(name)}.bpf.o" if objects else None
    return str(made.resolve()) if made and made.exists() else name


def compare(
    kernel: str,
    chosen: list[dict[str, Any]],
    tcpilot: Path,
    out: Path,
    objects: Path | None = None,
) -> int:
    """Appends to `out`/compare-<kernel>.jsonl; returns the machine's exit status."""
    out.mkdir(parents=True, exist_ok=True)
    ours = sorted({c["algorithm"] for c in chosen if is_own(c["algorithm"])})
    theirs = {_OWN_NAME.get(c["algorithm"], c["algorithm"]) for c in chosen} & set(cells.COMPARED)
    modules = [m for m in map(cells.module, sorted(theirs)) if m]
    spec = {
        "ours": [what_to_load(name, objects) for name in ours],
        "modules": modules,
        "cells": chosen,
        "tcpilot": str(tcpilot.resolve()),
        "loss": compile_losses(chosen, out),
        "ack_cost": compile_bpf("ack_cost.bpf.c", out / "ack_cost.bpf.o"),
    }
    spec_file = out / f"spec-{kernel}.json"
    spec_file.write_text(json.dumps(spec))
    machine = Machine(
        kernel,
        virtual_time=True,
        modules=_MODULES,
        env={"PYTHONPATH": str(_HERE.parents[2])},
    )
    command = ["python3", "-m", "tcplab.studies.cc.guest", str(spec_file.resolve())]
    with (out / f"compare-{kernel}.jsonl").open("ab") as file:
        return run(machine, command, stdout=file, stderr=sys.stderr.buffer).status


def multipath_cells(algorithms: Sequence[str], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Two links of one's own, alike and not; and one link shared with a single TCP."""
    link: dict[str, Any] = {"rate_mbit": 5, "delay_ms": 40, "buffer_packets": 30}
    common: dict[str, Any] = {"seconds": 12, "warm_s": 3, "subflows": 2, "against": ""}
    conditions: list[dict[str, Any]] = [
        {"name": "disjoint", "links": [link, link]},
        {"name": "unequal", "links": [link | {"rate_mbit": 1}, link]},
        {"name": "delays", "links": [link | {"delay_ms": 140}, link]},
        {"name": "shared", "links": [link], "against": "reno", "seconds": 40},
    ]
    names = [f"{PREFIX}{name}" for name in algorithms] + ["reno"]
    chosen = [c for c in conditions if not wanted or c["name"] in wanted]
    return [common | c | {"algorithm": name} for name in names for c in chosen]


def multipath(
    kernel: str, chosen: list[dict[str, Any]], tcpilot: Path, out: Path, objects: Path | None
) -> int:
    """Appends to `out`/multipath-<kernel>.jsonl."""
    out.mkdir(parents=True, exist_ok=True)
    ours = sorted({c["algorithm"] for c in chosen if is_own(c["algorithm"])})
    spec = {
        "ours": [what_to_load(name, objects) for name in ours],
        "cells": chosen,
        "tcpilot": str(tcpilot.resolve()),
    }
    spec_file = out / f"multipath-{kernel}.json"
    spec_file.write_text(json.dumps(spec))
    machine = Machine(
        kernel,
        virtual_time=True,
        modules=_MODULES,
        env={"PYTHONPATH": str(_HERE.parents[2])},
    )
    command = ["python3", "-m", "tcplab.studies.cc.multipath", str(spec_file.resolve())]
    with (out / f"multipath-{kernel}.jsonl").open("ab") as file:
        return run(machine, command, stdout=file, stderr=sys.stderr.buffer).status


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tcplab.studies.cc", description=__doc__)
    parser.add_argument("--kernel", default="7.2")
    parser.add_argument("--algorithms", default=",".join(cells.COMPARED))
    parser.add_argument("--conditions", default="", help="comma-separated [default: all]")
    parser.add_argument(
        "--side", choices=("both", "kernel", "ours"), default="both", help="whose of each"
    )
    parser.add_argument("--seconds", type=float, help="instead of each condition's own")
    parser.add_argument("--tcpilot", type=Path, default=Path("target/release/tcpilot"))
    parser.add_argument("--out", type=Path, default=Path("results/cc"))
    parser.add_argument("--objects", type=Path, help="compiled algorithms to prefer")
    parser.add_argument("--multipath", action="store_true", help="MPTCP over two links instead")
    parser.add_argument("--table", action="store_true", help="print --out, run nothing")
    args = parser.parse_args(arguments)
    if args.table:
        made = args.out / f"compare-{args.kernel}.jsonl"
        lines = made.read_text().splitlines()
        print(table(made), means(lines), costs(lines), sep="\n", end="")
        return 0
    if args.multipath:
        wanted = list(filter(None, args.conditions.split(",")))
        chosen = multipath_cells(args.algorithms.split(","), wanted)
        shorten(chosen, args.seconds)
        return multipath(args.kernel, chosen, args.tcpilot, args.out, args.objects)
    conditions = args.conditions or ",".join(c.name for c in cells.CONDITIONS)
    chosen = cells_of(args.algorithms.split(","), conditions.split(","), args.side)
    shorten(chosen, args.seconds)
    return compare(args.kernel, chosen, args.tcpilot, args.out, args.objects)
