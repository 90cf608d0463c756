"""The tuner `limit`: a sockops program with every tuner's callbacks and only the named parts of its
work.  It is the reference for the cost of a real tuner."""

from __future__ import annotations

import shlex
from enum import IntFlag
from pathlib import Path

from tcplab.engine import bpf
from tcplab.engine.places import CGROUP
from tcplab.scenario.model import Tuner

_HERE = Path(__file__).parent


class Part(IntFlag):
    """As in limit.bpf.c; a scenario names them in small letters."""

    SET = 1
    RANDOM = 2
    LOOKUP = 4
    STORAGE = 8
    RECORD = 16
    MOVE = 32


def compiled(tuner: Tuner) -> Path:
    """The program with the tuner's parts.  Raises EngineError."""
    parts = sum(Part[name.upper()] for name in tuner.parts)
    options = ["-mcpu=v3", "-Wall", "-Werror", f"-DPARTS={parts:d}"]
    return bpf.compiled(_HERE / "limit.bpf.c", "the tuner limit", options, form=f"-{parts:d}")


def start(tuner: Tuner) -> list[str]:
    """Shell lines to attach it, until its process ends."""
    words = shlex.join(["python3", str(_HERE / "hold.py"), str(compiled(tuner))])
    return [
        'step tuner "hold.py"',
        f'{words} "{CGROUP}" >tuner.log 2>tuner.err &',
        "tuner=$!",
        "await tuner.log attached tuner.err",
    ]


def stop() -> list[str]:
    """Shell lines to detach it."""
    return ["kill $tuner", 'wait $tuner || fail "hold.py: $(tail -n 1 tuner.err)"']
