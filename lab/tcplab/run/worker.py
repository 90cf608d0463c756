"""Runs jobs in this process, one after the other: `python -m tcplab.run.worker JOBS.json` ends
with a directory for each cell, or with status 1 and one line of why.

A process of their own, so its parent can end it by a signal, together with its machine or
namespaces.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from pathlib import Path

from tcplab.engine import here, vm
from tcplab.engine.errors import CellError
from tcplab.engine.job import Job, job_from_json
from tcplab.engine.script import files
from tcplab.engine.vm import Ended
from tcplab.results import writer
from tcplab.scenario.model import Cell, cell_from_json
from tcplab.vm.process import Interrupted, cleanup_on_signals

_ENGINES = {"here": here, "vm": vm}


def main(arguments: list[str]) -> int:
    """Runs the jobs of the file named."""
    jobs = [job_from_json(raw) for raw in json.loads(Path(arguments[0]).read_text())]
    try:
        with cleanup_on_signals():
            run_jobs(jobs)
    except (Interrupted, KeyboardInterrupt):
        return 128 + signal.SIGTERM
    except OSError as problem:
        # A full disk above all.
        print(problem, file=sys.stderr)
        return 1
    return 0


def run_jobs(jobs: list[Job]) -> None:
    """Runs the cells and writes their directories.  A failed one also has a directory, with the
    error.

    Raises OSError when results cannot be written.
    """
    left = {job.id: job for job in jobs}
    while left:
        batch = _Batch(list(left.values()))
        ended = batch.run()
        for identity in ended:
            del left[identity]


class _Batch:
    """Jobs on one machine."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = {_work(job): (job, _cell(job)) for job in jobs}
        self._settings = jobs[0].settings
        self._ended: list[str] = []
        self._started = time.monotonic()

    def run(self) -> list[str]:
        """Runs them; returns the finished cells, at least one.  A machine's failure is blamed on
        its running cell: later cells are left for another machine."""
        engine = _ENGINES[self._settings.engine]
        try:
            cells = [(cell, work) for work, (_, cell) in self._jobs.items()]
            for work in self._jobs:
                self._prepare(work)
            engine.run_scripts(cells, self._settings, self._note)
        except CellError as problem:
            work = next(w for w, (job, _) in self._jobs.items() if job.id not in self._ended)
            self._write(work, str(problem))
        finally:
            for work in self._jobs:
                shutil.rmtree(work, ignore_errors=True)
        if not self._ended:
            raise OSError("the engine ended without running anything")
        return self._ended

    def _prepare(self, work: Path) -> None:
        job, cell = self._jobs[work]
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        programs = _ENGINES[job.settings.engine].programs(cell, job.settings, work)
        for name, text in files(cell, job.seed, programs).items():
            (work / name).write_text(text)

    def _note(self, work: Path, ended: Ended) -> None:
        (work / "script.log").write_text(ended.said)
        self._write(work, why(ended))

    def _write(self, work: Path, error: str | None) -> None:
        job, cell = self._jobs[work]
        now = time.monotonic()
        writer.write(job, cell, work, error, wall_s=now - self._started)
        self._started = now
        self._ended.append(job.id)


def _cell(job: Job) -> Cell:
    cell = cell_from_json(job.cell)
    return here.fitted(cell) if job.settings.engine == "here" else vm.fitted(cell)


def _work(job: Job) -> Path:
    return Path(job.folder) / "work" / job.id


def why(ended: Ended) -> str | None:
    """The error of a script, from its messages."""
    if ended.status == 0:
        return None
    lines = [line for line in ended.said.splitlines() if line.startswith("tcplab: failed: ")]
    if lines:
        return lines[-1].removeprefix("tcplab: failed: ")
    last = ended.said.strip().splitlines()[-1:] or ["nothing was said"]
    return f"the script ended with status {ended.status}: {last[0]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
