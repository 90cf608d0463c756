"""The kernel's time on acknowledgements, by congestion control: how a cell's script measures it."""

from __future__ import annotations

import platform
import shlex
import subprocess
from pathlib import Path

from tcplab.engine.errors import EngineError
from tcplab.scenario.model import Cell
from tcplab.vm.cache import cache_dir, sha256_of

FILE = "acks.json"
"""Of the cell: acknowledgements and nanoseconds, by the name of the congestion control."""
_HERE = Path(__file__).parent
_SOURCE = _HERE / "ack_cost.bpf.c"


def is_wanted(cell: Cell) -> bool:
    return cell.measure.acks


def compiled() -> Path:
    """The program, compiled once for each form of its source.  Raises EngineError."""
    made = cache_dir() / f"ack_cost-{sha256_of(_SOURCE)[:16]}.bpf.o"
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    new = made.with_suffix(".new")
    include = f"/usr/include/{platform.machine()}-linux-gnu"
    command = ["clang", "-g", "-O2", "-target", "bpf", "-I", include, "-c", str(_SOURCE)]
    try:
        done = subprocess.run([*command, "-o", str(new)], capture_output=True, text=True)
    except FileNotFoundError as missing:
        raise EngineError("measure.acks needs clang; run: apt-get install clang") from missing
    if done.returncode:
        raise EngineError(f"{_SOURCE.name}: {done.stderr.strip().splitlines()[0]}")
    new.rename(made)
    return made


def start(cell: Cell) -> list[str]:
    """Lines that attach it."""
    if not is_wanted(cell):
        return []
    words = shlex.join(["python3", str(_HERE / "reader.py"), str(compiled())])
    return [
        'step acks "reader.py"',
        f"{words} >acks.out 2>acks.err &",
        "acks=$!",
        "await acks.out attached acks.err",
    ]


def stop(cell: Cell) -> list[str]:
    """Lines that end it."""
    if not is_wanted(cell):
        return []
    said = 'wait $acks || fail "reader.py: $(tail -n 1 acks.err)"'
    return ["kill $acks", said, f"sed 1d acks.out >{FILE}"]
