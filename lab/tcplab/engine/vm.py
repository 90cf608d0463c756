"""Engine `vm`: a virtual machine for each cell, with the kernel of one's choice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tcplab.engine import need
from tcplab.engine.errors import CellError, EngineError
from tcplab.engine.job import Settings
from tcplab.engine.script import SCRIPT, Programs
from tcplab.scenario.model import Cell
from tcplab.vm import Kernel, Machine, VmError, fetch, roots, run

# What tcpilot's and bpftune's arms are made of.
TUNER_MODULES = ("tcp_bbr", "tcp_htcp", "tcp_dctcp")
_SID = "sid"


@dataclass(frozen=True)
class Ended:
    """How a script ended, and what it said."""

    status: int
    said: str
    kvm: bool = False


def check(cells: list[Cell], settings: Settings) -> None:
    """Raises EngineError, naming everything that the kernel does not have."""
    try:
        kernel = fetch(settings.kernel)
    except VmError as problem:
        raise EngineError(str(problem)) from None
    missing = sorted({name for cell in cells for name in _modules(cell) if not _has(kernel, name)})
    if missing:
        names = ", ".join(missing)
        raise EngineError(
            f"kernel {kernel.release} has no module {names}; take another --kernel, or leave "
            "what needs it out of the scenario"
        )


def _has(kernel: Kernel, module: str) -> bool:
    listed = ""
    for name in ("modules.dep", "modules.builtin"):
        for path in kernel.modules.glob(name):
            listed += path.read_text()
    return f"/{module}.ko" in listed


def _modules(cell: Cell) -> tuple[str, ...]:
    tuner = TUNER_MODULES if cell.tuner.name != "none" else ()
    return tuple(dict.fromkeys((*need.modules(cell), *tuner)))


def programs(cell: Cell, settings: Settings, folder: Path) -> Programs:
    """Where the script finds things: in the root `sid` the host's files lie below /host."""
    below = Path("/host") if cell.tuner.name == "bpftune" else Path("/")
    flowgen, tcpilot = (
        below / Path(path).relative_to("/") for path in (settings.flowgen, settings.tcpilot)
    )
    return Programs(flowgen, tcpilot, folder)


def run_script(cell: Cell, settings: Settings, folder: Path) -> Ended:
    """Boots and runs the cell's script.  Raises CellError when the machine fails."""
    try:
        machine = Machine(
            settings.kernel,
            virtual_time=settings.virtual_time,
            timeout_s=settings.timeout_s,
            rw=(folder,),
            root=roots.resolve(_SID if cell.tuner.name == "bpftune" else "/"),
            modules=_modules(cell),
        )
        result = run(machine, ["sh", str(folder / SCRIPT)], cwd=Path("/"))
    except VmError as problem:
        raise CellError(str(problem)) from None
    return Ended(result.status, result.stderr.decode(errors="replace"), result.kvm)
