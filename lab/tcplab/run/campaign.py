"""Runs a campaign from a validated scenario to its report, or resumes an interrupted one."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tcplab import metrics, report
from tcplab.engine import here, programs, vm
from tcplab.engine.errors import EngineError
from tcplab.engine.held import held
from tcplab.engine.job import Job, Settings
from tcplab.results import manifest
from tcplab.run import plan
from tcplab.run.local import Done
from tcplab.run.progress import Reporter
from tcplab.scenario import Scenario, load, selected
from tcplab.scenario.model import Cell, cell_from_json

Runner = Callable[[list[list[Job]]], Iterator[Done]]
CELLS_PER_BOOT = 8
_LEAST_FREE_BYTES = 200_000_000


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended."""

    folder: Path
    ok: int
    rejected: int
    failed: int
    errors: dict[str, list[str]]
    """Reasons, each with its failed cells."""


def check(
    scenario: Scenario, settings: Settings, out: Path, others: Sequence[str] = ()
) -> list[Cell]:
    """The cells as the engine runs them.  Raises EngineError with everything missing, `others`
    included, before anything is started."""
    engine = here if settings.engine == "here" else vm
    cells = [engine.fitted(point.cell) for point in scenario.points]
    problems = [*others, *engine.missing(cells, settings), *programs.missing(cells, settings)]
    if settings.engine == "here" and settings.virtual_time:
        problems.append("--virtual-time needs --engine vm: this host's clock is what it is")
    if settings.engine == "vm" and out.is_relative_to("/tmp"):
        problems.append(f"{out}: the machine has a /tmp of its own; give another --out")
    problems += _no_room(out)
    if problems:
        raise EngineError(*problems)
    return cells


def start(
    scenario: Scenario,
    settings: Settings,
    out: Path,
    command: list[str],
    only: Sequence[str] = (),
    others: Sequence[str] = (),
) -> Path:
    """The directory of a new campaign, with its manifest; `only` is how the scenario's cells were
    selected.  Raises EngineError as `check` does."""
    out = out.resolve()
    cells = check(scenario, settings, out, others)
    folder = manifest.create(out, scenario.name, datetime.now(UTC))
    how = {
        "engine": settings.engine,
        "kernel_wanted": settings.kernel if settings.engine == "vm" else None,
        "virtual_time": settings.virtual_time,
        "only": list(only),
        **programs.hashes(cells, settings),
    }
    (folder / manifest.SCENARIO).write_text(scenario.source)
    manifest.write(folder, manifest.content(scenario, command, how))
    return folder


def _no_room(out: Path) -> list[str]:
    place = next(path for path in (out, *out.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free >= _LEAST_FREE_BYTES:
        return []
    needed = f"{free / 1e6:.0f} MB are free, {_LEAST_FREE_BYTES / 1e6:.0f} MB are needed"
    return [f"{out}: {needed}; make room or give another --out"]


def resumed(scenario: Scenario, settings: Settings, folder: Path, others: Sequence[str]) -> None:
    """Checks a campaign before it goes on.  Its manifest keeps the hashes of changed programs.

    Raises EngineError as `check` does.
    """
    cells = check(scenario, settings, folder, others)
    found, now = manifest.read(folder), programs.hashes(cells, settings)
    before = [found, *found.get("resumed", [])][-1]
    if any(before.get(kind) != now[kind] for kind in now):
        found["resumed"] = [*found.get("resumed", []), {"at": manifest.stamp(), **now}]
        manifest.write(folder, found)


def scenario_of(folder: Path) -> Scenario:
    """A campaign's original scenario, validated again."""
    found = manifest.read(folder)
    copy = folder / manifest.SCENARIO
    scenario = selected(load(copy, found["quick"]), found.get("only", []))
    return replace(scenario, name=found["campaign"])


def run(
    scenario: Scenario,
    settings: Settings,
    folder: Path,
    runner: Runner,
    batch: int = CELLS_PER_BOOT,
) -> Outcome:
    """Runs the missing cells.  Interrupted, it leaves a resumable campaign."""
    jobs = plan.jobs(scenario, folder, settings)
    left = [job for job in jobs if not is_complete(job.place)]
    for job in left:
        # It failed before; its place shows when the new one is there.
        shutil.rmtree(job.place, ignore_errors=True)
    shutil.rmtree(folder / "work", ignore_errors=True)
    _set_status(folder, "running")
    errors: dict[str, list[str]] = {}
    with _held(left, settings):
        try:
            with Reporter(scenario.name, len(jobs), len(jobs) - len(left)) as reporter:
                for done in runner(plan.batches(left, batch)):
                    _note(done, reporter, errors)
        finally:
            complete = all((job.place / "cell.json").exists() for job in jobs)
            shutil.rmtree(folder / "work", ignore_errors=True)
            _set_status(folder, "complete" if complete else "broken-off")
        metrics.write_summary(folder)
        report.write(folder)
    states = [status(job.place) for job in jobs]
    return Outcome(
        folder,
        states.count("ok"),
        states.count("rejected"),
        len(states) - states.count("ok") - states.count("rejected"),
        errors,
    )


def _held(jobs: Sequence[Job], settings: Settings) -> AbstractContextManager[None]:
    """Resources shared by this host's cells; a machine has its own."""
    if settings.engine == "vm":
        return contextlib.nullcontext()
    cells = [here.fitted(cell_from_json(job.cell)) for job in jobs]
    return held(cells, Path(settings.tcpilot))


def _note(done: Done, reporter: Reporter, errors: dict[str, list[str]]) -> None:
    """A reason shared by many cells is reported once, with the first."""
    place = done.job.place
    state, why = status(place), done.error
    if not why and state == "failed":
        why = str(json.loads((place / "cell.json").read_text())["error"])
    if why:
        errors.setdefault(why, []).append(done.job.id)
        before = len(errors[why]) > 1
        reporter.cell(done.job.id, state, done.wall_s, None if before else why)
        return
    if state == "rejected":
        why = rejection(json.loads((place / "cell.json").read_text()))
    metrics.write_cell(place)
    reporter.cell(done.job.id, state, done.wall_s, why)


def rejection(cell: dict[str, Any]) -> str:
    """The failed parts of the calibration, in one line."""
    bad = [
        f"{name} {entry['measured']} instead of {entry['expected']}"
        for name, entry in cell["calibration"].items()
        if not entry["ok"]
    ]
    return "calibration: " + ", ".join(bad)


def drop_rejected(folder: Path) -> None:
    """Removes rejected cells, so a resumed campaign runs them again."""
    for place in (folder / "cells").iterdir():
        if status(place) == "rejected":
            shutil.rmtree(place)


def is_complete(place: Path) -> bool:
    """A resumed campaign repeats a failed cell."""
    return status(place) in ("ok", "rejected")


def status(place: Path) -> str:
    try:
        return str(json.loads((place / "cell.json").read_text())["status"])
    except (OSError, ValueError):
        return "failed"


def _set_status(folder: Path, state: str) -> None:
    # On a full disk the old manifest stays; a resumed run goes by the cells.
    with contextlib.suppress(OSError):
        found = manifest.read(folder)
        found["status"] = state
        found["finished"] = None if state == "running" else manifest.stamp()
        manifest.write(folder, found)
