"""Runs one job in this process: `python -m tcplab.engine.worker JOB.json` ends with the cell's
directory written, or with status 1 and one line of why.

A process for each job, so that whoever started it can end it, and with it its machine or its
namespaces, by a signal.
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
from tcplab.results import writer
from tcplab.scenario.model import Cell, cell_from_json
from tcplab.vm.process import Interrupted, cleanup_on_signals

_ENGINES = {"here": here, "vm": vm}


def main(arguments: list[str]) -> int:
    """Runs the job of the file named."""
    job = job_from_json(json.loads(Path(arguments[0]).read_text()))
    try:
        with cleanup_on_signals():
            run_job(job)
    except (Interrupted, KeyboardInterrupt):
        return 128 + signal.SIGTERM
    except OSError as problem:
        # A full disk above all.
        print(f"{job.id}: {problem}", file=sys.stderr)
        return 1
    return 0


def run_job(job: Job) -> None:
    """Runs the cell and writes its directory.  A cell that failed has a directory that says so.

    Raises OSError when results cannot be written.
    """
    started = time.monotonic()
    work = Path(job.folder) / "work" / job.id
    cell = cell_from_json(job.cell)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        error = _run(job, cell, work)
        writer.write(job, cell, work, error, wall_s=time.monotonic() - started)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(job: Job, cell: Cell, work: Path) -> str | None:
    """Runs the script; returns what went wrong."""
    engine = _ENGINES[job.settings.engine]
    for name, text in files(cell, job.seed, engine.programs(cell, job.settings, work)).items():
        (work / name).write_text(text)
    try:
        ended = engine.run_script(cell, job.settings, work)
    except CellError as problem:
        return str(problem)
    (work / "script.log").write_text(ended.said)
    if ended.status == 0:
        return None
    lines = [line for line in ended.said.splitlines() if line.startswith("tcplab: failed: ")]
    if lines:
        return lines[-1].removeprefix("tcplab: failed: ")
    last = ended.said.strip().splitlines()[-1:] or ["nothing was said"]
    return f"the script ended with status {ended.status}: {last[0]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
