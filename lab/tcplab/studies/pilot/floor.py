"""The least that a sockops program of this kind can cost, part by part: guest/floor.bpf.c."""

from __future__ import annotations

import platform
import subprocess
from enum import IntFlag
from pathlib import Path

_SOURCE = Path(__file__).parent / "guest" / "floor.bpf.c"


class Part(IntFlag):
    """As in floor.bpf.c."""

    SET = 1
    RANDOM = 2
    LOOKUP = 4
    STORAGE = 8
    RECORD = 16


NEEDED = Part.RANDOM | Part.LOOKUP | Part.STORAGE | Part.RECORD
"""What every design needs that learns of paths."""

FLOORS: dict[str, Part] = {
    "limit": Part(0),
    "limit-set": Part.SET,
    "limit-random": Part.RANDOM,
    "limit-lookup": Part.LOOKUP,
    "limit-storage": Part.STORAGE,
    "limit-record": Part.RECORD,
    "floor": NEEDED,
    "floor-set": NEEDED | Part.SET,
}
"""Programs by name. The limit asks for the callbacks alone; the floor has all that is needed."""


class FloorError(Exception):
    """A program could not be compiled; says why."""


def build(folder: Path) -> None:
    """Compiles every program into `folder`, as NAME.o. Raises FloorError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, parts in FLOORS.items():
        command = ["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"]
        command += ["-I", f"/usr/include/{platform.machine()}-linux-gnu", f"-DPARTS={parts:d}"]
        command += ["-c", str(_SOURCE), "-o", str(folder / f"{name}.o")]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as missing:
            raise FloorError("clang is missing; run: scripts/setup test") from missing
        if done.returncode:
            raise FloorError(f"{_SOURCE.name}: {done.stderr.strip()}")
