"""Runs a campaign from a validated scenario to its report, or resumes one that was broken off."""

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
from tcplab.engine import acks, here, limits, need, relay, vm
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
    """Reasons, each with the cells that failed for it."""


def check(scenario: Scenario, settings: Settings) -> None:
    """Raises EngineError with all that is missing, before anything is started."""
    engine = here if settings.engine == "here" else vm
    cells = [engine.fitted(point.cell) for point in scenario.points]
    engine.check(cells, settings)
    _compile(cells)
    programs = [settings.flowgen]
    if any(need.needs_tcpilot(cell) for cell in cells):
        programs.append(settings.tcpilot)
    if any(link.trace for cell in cells for link in cell.links):
        programs.append(str(relay.program(settings.flowgen)))
    for program in programs:
        if not Path(program).is_file():
            raise EngineError(
                f"{program} is missing; run cargo build --release in tcpilot's source, or name the "
                "folder of flowgen and tcpilot by --binaries"
            )
        if settings.engine == "vm" and Path(program).is_relative_to("/tmp"):
            raise EngineError(f"{program}: the machine has a /tmp of its own; put it elsewhere")


def _compile(cells: Sequence[Cell]) -> None:
    """The engine's own BPF programs, so that a mistake is said once and not by each cell."""
    if any(acks.is_wanted(cell) for cell in cells):
        acks.compiled()
    for tuner in {cell.tuner for cell in cells if cell.tuner.name == "limit"}:
        limits.compiled(tuner)


def start(
    scenario: Scenario, settings: Settings, out: Path, command: list[str], only: Sequence[str] = ()
) -> Path:
    """The directory of a new campaign, with its manifest; `only` is how the scenario's cells were
    selected."""
    check(scenario, settings)
    out = out.resolve()
    if settings.engine == "vm" and out.is_relative_to("/tmp"):
        raise EngineError(f"{out}: the machine has a /tmp of its own; give another --out")
    _check_disk(out)
    folder = manifest.create(out, scenario.name, datetime.now(UTC))
    how = {
        "engine": settings.engine,
        "kernel_wanted": settings.kernel if settings.engine == "vm" else None,
        "virtual_time": settings.virtual_time,
        "only": list(only),
    }
    (folder / manifest.SCENARIO).write_text(scenario.source)
    manifest.write(folder, manifest.content(scenario, command, how))
    return folder


def _check_disk(out: Path) -> None:
    place = next(path for path in (out, *out.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE_BYTES:
        raise EngineError(
            f"{out}: {free / 1e6:.0f} MB are free, {_LEAST_FREE_BYTES / 1e6:.0f} MB are needed; "
            "make room or give another --out"
        )


def scenario_of(folder: Path) -> Scenario:
    """The scenario that a campaign was started with, validated again."""
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
    """Runs the cells that are missing.  Interrupted, it leaves a campaign that can be resumed."""
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
    """What cells of this host share; a machine has its own."""
    if settings.engine == "vm":
        return contextlib.nullcontext()
    cells = [here.fitted(cell_from_json(job.cell)) for job in jobs]
    return held(cells, Path(settings.tcpilot))


def _note(done: Done, reporter: Reporter, errors: dict[str, list[str]]) -> None:
    """A reason that many cells have is said by the first of them."""
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
    """Removes the cells that calibration rejected, so that a resumed campaign runs them again."""
    for place in (folder / "cells").iterdir():
        if status(place) == "rejected":
            shutil.rmtree(place)


def is_complete(place: Path) -> bool:
    """A cell that failed is run again by a resumed campaign."""
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
