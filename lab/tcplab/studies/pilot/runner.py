"""Runs an experiment in a machine, and keeps what it printed and where it came from."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tcplab.studies.pilot import floor
from tcplab.studies.pilot.experiments import MODULES, Experiment
from tcplab.studies.pilot.sections import Section, first, parse
from tcplab.vm import Machine, roots, run

_GUEST = Path(__file__).parent / "guest"
_KERNEL = "7.2"


class ExperimentError(Exception):
    """An experiment did not run to its end; says which and where its output is."""


@dataclass(frozen=True)
class Outcome:
    sections: list[Section]
    provenance: dict[str, Any]


def run_experiment(experiment: Experiment, out: Path, binaries: Path, command: str) -> Outcome:
    """Boots, runs, and returns the parsed output; the raw output stays in `out`.

    Raises ExperimentError when the script failed, VmError when the machine did.
    """
    raw = out / f"{experiment.name}.txt"
    started, commit = time.monotonic(), _commit()
    try:
        floor.build(out / "floors")
    except floor.FloorError as problem:
        raise ExperimentError(str(problem)) from problem
    script = _script(
        experiment, binaries, out / "floors", Path("/" if experiment.here else "/host")
    )
    with raw.open("wb") as file:
        status = _here(script, file) if experiment.here else _in_machine(script, file)
    sections = parse(raw.read_text(errors="replace"))
    if status != 0:
        raise ExperimentError(f"{experiment.name} ended with {status}; output: {raw}")
    host = first(sections, what="host").json()
    provenance = {
        "experiment": experiment.name,
        "command": command,
        "parameters": experiment.parameters,
        "commit": commit,
        "kernel": host["kernel"],
        "sysctls": host["sysctls"],
        "where": "this host" if experiment.here else "machine, virtual time",
        "wall_s": round(time.monotonic() - started),
        # bpf_get_prandom_u32 is seeded by the machine's boot, which no option fixes.
        "seed": "the kernel's, at boot",
    }
    return Outcome(sections, provenance)


def _in_machine(script: str, output: BinaryIO) -> int:
    machine = Machine(_KERNEL, virtual_time=True, root=roots.resolve("sid"), modules=MODULES)
    return run(machine, ["bash", "-c", script], stdout=output, stderr=sys.stderr.buffer).status


def _here(script: str, output: BinaryIO) -> int:
    command = ["bash", str(_GUEST / "here.sh"), script]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output).returncode


def _script(experiment: Experiment, binaries: Path, floors: Path, root: Path) -> str:
    """The whole script, for a place that sees this host's files below `root`."""
    files = {name: binaries / name for name in ("tcpilot", "flowgen")}
    for path in files.values():
        if not path.exists():
            raise ExperimentError(f"{path} is missing; run: cargo build --release")
    files["floors"] = floors
    seen = {name: root / path.resolve().relative_to("/") for name, path in files.items()}
    return experiment.text(seen, (_GUEST / "lib.sh").read_text())


def _commit() -> str:
    """The commit of this file's repository, with + where files differ from it."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip() or "unknown"
