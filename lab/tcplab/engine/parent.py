"""Processes that end with their parent, for any reason."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def die_with_parent(by: int = signal.SIGKILL) -> Callable[[], None]:
    """For a child, between fork and exec.  The signal comes when the starting thread ends, not the
    process."""
    parent = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, by)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
