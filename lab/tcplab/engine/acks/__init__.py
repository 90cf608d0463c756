"""The kernel's time on acknowledgements, by congestion control: how a cell's script measures it."""

from __future__ import annotations

import shlex
from pathlib import Path

from tcplab.engine import bpf
from tcplab.scenario.model import Cell

FILE = "acks.json"
"""In the cell's folder: acknowledgements and nanoseconds, by the name of the congestion control."""
_HERE = Path(__file__).parent
_SOURCE = _HERE / "ack_cost.bpf.c"


def is_wanted(cell: Cell) -> bool:
    return cell.measure.acks


def compiled() -> Path:
    """The program.  Raises EngineError."""
    return bpf.compiled(_SOURCE, "measure.acks")


def start(cell: Cell) -> list[str]:
    """Shell lines to attach it."""
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
    """Shell lines to end it."""
    if not is_wanted(cell):
        return []
    said = 'wait $acks || fail "reader.py: $(tail -n 1 acks.err)"'
    return ["kill $acks", said, f"sed 1d acks.out >{FILE}"]
