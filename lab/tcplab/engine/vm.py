"""Engine `vm`: virtual machines with the kernel of one's choice, several cells to a boot."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from tcplab.engine import need
from tcplab.engine.errors import CellError
from tcplab.engine.job import Settings
from tcplab.engine.script import SCRIPT, Programs
from tcplab.scenario.model import Cell
from tcplab.vm import Kernel, Machine, VmError, extra, fetch, initramfs, kernels, qemu, roots, run

# The modules of tcpilot's and bpftune's arms.
TUNER_MODULES = ("tcp_bbr", "tcp_htcp", "tcp_dctcp")
_SID = "sid"
_ENDED = "tcplab: ended"
_ENDED_LINE = re.compile(rf"^{_ENDED} (\d+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """How a script ended, and its messages."""

    status: int
    said: str


def missing(cells: list[Cell], settings: Settings) -> list[str]:
    """A sentence for each need of the cells beyond a machine or its kernel."""
    found: list[str] = []
    for needed in (qemu.program, initramfs.find_busybox):
        with _told(found):
            needed()
    peers = [cell for cell in cells if cell.tuner.name == "bpftune"]
    if peers:
        found += roots.missing(_SID)
    if any(cell.measure.acks for cell in peers):
        found.append("measure.acks needs Python; bpftune's machine has none")
    with _told(found):
        found += _no_modules(fetch(settings.kernel), cells)
    return found


@contextmanager
def _told(found: list[str]) -> Iterator[None]:
    """An error becomes one of the sentences."""
    try:
        yield
    except VmError as problem:
        found.append(str(problem))


def _no_modules(kernel: Kernel, cells: list[Cell]) -> list[str]:
    wanted = sorted({name for cell in cells for name in _modules(cell)})
    lacking = [name for name in wanted if not kernels.has_module(kernel, name)]
    built = extra.prepare(kernel, lacking)
    names = ", ".join(name for name in lacking if name not in built)
    remedy = "take another --kernel, or leave what needs it out of the scenario"
    return [f"kernel {kernel.release} has no module {names}; {remedy}"] if names else []


def _modules(cell: Cell) -> tuple[str, ...]:
    tuner = TUNER_MODULES if cell.tuner.name != "none" else ()
    return tuple(dict.fromkeys((*need.modules(cell), *tuner)))


def programs(cell: Cell, settings: Settings, folder: Path) -> Programs:
    """The folders of the script: in the root `sid` the host's files lie below /host."""
    below = Path("/host") if cell.tuner.name == "bpftune" else Path("/")
    flowgen, tcpilot = (
        below / Path(path).relative_to("/") for path in (settings.flowgen, settings.tcpilot)
    )
    return Programs(flowgen, tcpilot, folder)


def fitted(cell: Cell) -> Cell:
    """The cell unchanged: the machines' kernels have everything."""
    return cell


def run_scripts(
    cells: list[tuple[Cell, Path]], settings: Settings, ended: Callable[[Path, Ended], None]
) -> None:
    """Boots once and runs the cells' scripts one after the other, each in namespaces of its own.

    `ended` is called as each ends.  Raises CellError when the machine fails.  This ends the running
    cell and all later ones.
    """
    first = cells[0][0]
    sid = first.tuner.name == "bpftune"
    modules = dict.fromkeys(name for cell, _ in cells for name in _modules(cell))
    folders = [folder for _, folder in cells]
    try:
        machine = Machine(
            settings.kernel,
            virtual_time=settings.virtual_time,
            timeout_s=settings.timeout_s * len(cells),
            rw=folders,
            root=roots.resolve(_SID if sid else "/"),
            modules=tuple(modules),
        )
        listener = _Listener(folders, ended)
        result = run(
            machine, ["sh", "-c", _loop(folders)], cwd=folders[0], stderr=cast(BinaryIO, listener)
        )
    except VmError as problem:
        raise CellError(str(problem)) from None
    if listener.left:
        said = listener.said.strip().splitlines()[-1:] or ["nothing was said"]
        raise CellError(
            f"the machine ended with status {result.status} before its cells: {said[0]}"
        )


def _loop(folders: list[Path]) -> str:
    """Runs the scripts; a line says how each ended.  ip keeps the names of namespaces in /run."""
    own = "unshare --mount --net --pid --fork --kill-child --mount-proc"
    first = "mount -t tmpfs tmpfs /run && ip link set lo up && exec sh"
    lines: list[str] = []
    for folder in folders:
        lines.append(f"{own} sh -c '{first} \"$0\"' {shlex.quote(str(folder / SCRIPT))}")
        lines.append(f"printf '\\n{_ENDED} %s\\n' $? >&2")
    return "\n".join(lines)


class _Listener(io.RawIOBase):
    """Takes the machine's output, and reports when a script has ended."""

    def __init__(self, folders: list[Path], ended: Callable[[Path, Ended], None]) -> None:
        self.left = list(folders)
        self._ended = ended
        self.said = ""

    def write(self, data: Any) -> int:
        self.said += bytes(data).decode(errors="replace")
        while match := _ENDED_LINE.search(self.said):
            said, self.said = self.said[: match.start()], self.said[match.end() :]
            self._ended(self.left.pop(0), Ended(int(match[1]), said))
        return len(data)
