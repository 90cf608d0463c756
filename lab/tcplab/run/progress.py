"""The display while a campaign runs: a bar with the time left, or a line per cell."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Reporter:
    """A context notified of every cell; writes to stderr only."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self._console = Console(stderr=True)
        self._live = sys.stderr.isatty()
        self._counts: Counter[str] = Counter()
        self._total, self._done, self._first = total, done, done
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            # Cells end minutes apart; the whole run is the best guess of their length.
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
            speed_estimate_period=3600,
        )
        self._task = self._progress.add_task(title, total=total, completed=done, counts="")

    def __enter__(self) -> Reporter:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def cell(self, name: str, status: str, wall_s: float, why: str | None) -> None:
        """One cell has ended."""
        self._done += 1
        self._counts[status] += 1
        bad = {key: n for key, n in self._counts.items() if key != "ok"}
        counts = ", ".join(f"{n} {key}" for key, n in sorted(bad.items()))
        self._progress.update(self._task, advance=1, counts=counts)
        text = f"{name}  {status}  {wall_s:.1f} s{'  ' + why if why else ''}"
        if not self._live:
            left = f"  {duration(self.left_s())} left" if self._done < self._total else ""
            print(f"[{self._done}/{self._total}] {text}{left}", file=sys.stderr, flush=True)
        elif status != "ok":
            self._console.print(text, highlight=False, markup=False)

    def left_s(self) -> float:
        """Wall seconds to the end, from the pace so far."""
        ended = max(self._done - self._first, 1)
        return (time.monotonic() - self._started) / ended * (self._total - self._done)


def duration(seconds: float) -> str:
    """As people say it: 1 h 05 min, 12 min, 40 s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min" if minutes else f"{rest} s"
