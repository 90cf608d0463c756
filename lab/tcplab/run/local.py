"""Runs jobs on this host, `count` side by side, each in a process that dies with this one."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
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

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.05
_PATIENCE_S = 10.0
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Done:
    """How a job ended.  `error` is set when not even a failed cell could be written."""

    job: Job
    wall_s: float
    error: str | None


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    started: float
    files: tempfile.TemporaryDirectory[str]


def run(jobs: list[Job], count: int) -> Iterator[Done]:
    """Yields jobs as they end.  Closing the iterator, or an exception, ends those that run."""
    waiting = list(reversed(jobs))
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < count:
                running.append(_start(waiting.pop()))
            ended = [item for item in running if item.process.poll() is not None]
            if not ended:
                time.sleep(_POLL_S)
            for item in ended:
                running.remove(item)
                yield _finish(item)
    finally:
        _stop(running)


def run_one(job: Job) -> Done:
    """Runs one job to its end; what a scheduler's worker calls."""
    (done,) = run([job], 1)
    return done


def _start(job: Job) -> _Running:
    files = tempfile.TemporaryDirectory(prefix="tcplab-job-")
    path = Path(files.name) / "job.json"
    path.write_text(json.dumps(job.as_json()))
    with (Path(files.name) / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tcplab.engine.worker", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # Ctrl-C reaches us alone, and we end the jobs.
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
    return _Running(job, process, time.monotonic(), files)


def _die_with_parent() -> Callable[[], None]:
    # The signal comes when the thread that started it ends; a scheduler's worker has threads that
    # come and go, but this one waits for its job.
    parent = os.getpid()
    is_main = threading.current_thread() is threading.main_thread()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM if is_main else signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _finish(item: _Running) -> Done:
    error = None
    if item.process.returncode != 0:
        said = (Path(item.files.name) / "said").read_text(errors="replace").strip()
        last = said.splitlines()[-1:] or [f"status {item.process.returncode}"]
        error = last[0]
    item.files.cleanup()
    return Done(item.job, time.monotonic() - item.started, error)


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
