"""Runs batches of jobs on this host, each in a process bound to this one's life."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tcplab.engine.job import Job
from tcplab.engine.parent import die_with_parent

_POLL_S = 0.05
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Done:
    """How a job ended.  `error` is set when not even a failed cell could be written."""

    job: Job
    wall_s: float
    error: str | None


@dataclass
class _Running:
    jobs: dict[str, Job]
    """Unfinished jobs."""
    process: subprocess.Popen[bytes]
    since: float
    files: tempfile.TemporaryDirectory[str]


def run(batches: list[list[Job]], count: int) -> Iterator[Done]:
    """Yields jobs as they end, `count` batches at a time.  Closing the iterator, or an exception,
    ends the running ones."""
    waiting = list(reversed(batches))
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < count:
                running.append(_start(waiting.pop()))
            time.sleep(_POLL_S)
            for item in list(running):
                over = item.process.poll() is not None
                yield from _ended(item)
                if over:
                    running.remove(item)
                    yield from _broken(item)
    finally:
        _stop(running)


def run_batch(jobs: list[Job]) -> list[Done]:
    """Runs one batch to its end; a scheduler's worker calls this."""
    return list(run([jobs], 1))


def _ended(item: _Running) -> Iterator[Done]:
    for job in list(item.jobs.values()):
        if (job.place / "cell.json").exists():
            del item.jobs[job.id]
            now = time.monotonic()
            wall_s, item.since = now - item.since, now
            yield Done(job, wall_s, None)


def _start(jobs: list[Job]) -> _Running:
    files = tempfile.TemporaryDirectory(prefix="tcplab-job-")
    path = Path(files.name) / "jobs.json"
    path.write_text(json.dumps([job.as_json() for job in jobs]))
    with (Path(files.name) / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tcplab.run.worker", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # Ctrl-C reaches us alone, and we end the jobs.
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
    return _Running({job.id: job for job in jobs}, process, time.monotonic(), files)


def _die_with_parent() -> Callable[[], None]:
    # A scheduler's worker has short-lived threads, but this one waits for its job.
    is_main = threading.current_thread() is threading.main_thread()
    return die_with_parent(signal.SIGTERM if is_main else signal.SIGKILL)


def _broken(item: _Running) -> Iterator[Done]:
    """Jobs without any result from the ended process."""
    said = (Path(item.files.name) / "said").read_text(errors="replace").strip()
    last = said.splitlines()[-1:] or [f"the worker ended with status {item.process.returncode}"]
    item.files.cleanup()
    for job in item.jobs.values():
        yield Done(job, time.monotonic() - item.since, last[0])


def _stop(running: list[_Running]) -> None:
    for item in running:
        item.process.terminate()
    deadline = time.monotonic() + _PATIENCE_S
    for item in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            item.process.wait(max(deadline - time.monotonic(), 0.1))
        if item.process.poll() is None:
            item.process.kill()
            item.process.wait()
        item.files.cleanup()
