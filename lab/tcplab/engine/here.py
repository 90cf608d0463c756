"""Engine `here`: the cell's script on this kernel, in its own network, mount and process
namespaces.  They end with its first process, for any reason.  Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from tcplab import topology
from tcplab.algorithms import is_own, stand_in
from tcplab.engine import need, relay
from tcplab.engine.errors import CellError, EngineError
from tcplab.engine.held import AVAILABLE
from tcplab.engine.job import Settings
from tcplab.engine.parent import die_with_parent
from tcplab.engine.script import SCRIPT, Programs
from tcplab.engine.vm import Ended
from tcplab.scenario.model import Cell, Flow

_TCP = Path("/proc/sys/net/ipv4")
_MPTCP = Path("/proc/sys/net/mptcp")
_FAST_MBIT = 400.0
"""From this rate on a cell has the machine for itself, and its relay and ends have a processor."""
_UNSHARE = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
# ip keeps the names of namespaces in /run, private here.
_FIRST = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec sh "$0"'
_QDISC_ARGUMENTS = {
    "tbf": "tbf rate 1mbit burst 3000 limit 3000",
    "red": "red limit 100000 min 10000 max 30000 avpkt 1000",
    "cake": "cake bandwidth 1mbit",
}


def fitted(cell: Cell) -> Cell:
    """The cell as this kernel can run it: delays by a relay if there is no netem, and, if the
    scenario allows it, tcpilot's algorithms for missing ones."""
    if cell.stand_ins:
        cell = replace(cell, flows=tuple(map(_stood_in, cell.flows)))
    if _netem(cell) and not _qdisc("netem"):
        return replace(cell, delays=topology.RELAY, relay_processor=_own_processor(cell))
    return cell


def _own_processor(cell: Cell) -> int | None:
    """The last processor, for the relay and the ends of a fast cell: at high rates the kernel works
    for long without yielding, and a thread on the same processor wakes up too late."""
    processors = sorted(os.sched_getaffinity(0))
    is_fast = max((link.rate_mbit or 0) for link in cell.links) >= _FAST_MBIT
    return processors[-1] if is_fast and len(processors) > 1 else None


def _stood_in(flow: Flow) -> Flow:
    own = None if flow.quic else stand_in(flow.cc)
    return flow if own is None or _control(flow.cc) else replace(flow, cc=own)


def _netem(cell: Cell) -> bool:
    return "netem" in need.qdiscs(cell)


def missing(cells: list[Cell], settings: Settings) -> list[str]:
    """A sentence for each need of the cells beyond this host."""
    found = [] if os.geteuid() == 0 else ["engine here needs root; use sudo, or --engine vm"]
    lacks = [f"program {name}" for name in _programs(cells) if not shutil.which(name)]
    lacks += _in_kernel(cells)
    # A qdisc is tried in a namespace, and only root can make one.
    lacks += [] if found else _qdiscs(cells, settings)
    if lacks:
        found.append(f"this kernel ({os.uname().release}) lacks: {', '.join(lacks)}; {_OTHER}")
    return found


_OTHER = "use --engine vm"


def _programs(cells: list[Cell]) -> list[str]:
    tuned = any(cell.tuner.name == "bpftune" for cell in cells)
    return ["ip", "tc", "unshare", *(["bpftune", "bpftool"] if tuned else [])]


def _in_kernel(cells: list[Cell]) -> list[str]:
    controls = set().union(*(need.congestion_controls(cell) for cell in cells))
    foreign = sorted(name for name in controls if not is_own(name))
    lacks = [f"congestion control {name}" for name in foreign if not _control(name)]
    lacks += _no_defaults(cells)
    if any(flow.transport == "mptcp" for cell in cells for flow in cell.present()):
        lacks += [] if _MPTCP.exists() else ["MPTCP"]
    if any(map(_has_cgroup, cells)) and not _cgroups():
        lacks.append("a mounted cgroup v2 for the tuner")
    return lacks


def _qdiscs(cells: list[Cell], settings: Settings) -> list[str]:
    lacks: list[str] = []
    kinds = set().union(*(need.qdiscs(cell) for cell in cells))
    if "netem" in kinds and not _qdisc("netem"):
        kinds.discard("netem")
        try:
            lacks += relay.refused([cell for cell in cells if _netem(cell)], settings.flowgen)
        except EngineError as problem:
            lacks += problem.problems
    return lacks + [f"qdisc {kind}" for kind in sorted(kinds) if not _qdisc(kind)]


def _available() -> list[str]:
    return AVAILABLE.read_text().split()


def _no_defaults(cells: list[Cell]) -> list[str]:
    """Algorithms forbidden by the kernel as a namespace's default; with the remedy."""
    allowed = (_TCP / "tcp_allowed_congestion_control").read_text().split()
    wanted = {cell.sysctl.get("net.ipv4.tcp_congestion_control") for cell in cells}
    refused = sorted(name for name in wanted if name in _available() and name not in allowed)
    words = " ".join([*allowed, *refused])
    return [
        f"the permission to make {name} a namespace's default (sysctl -w "
        f"net.ipv4.tcp_allowed_congestion_control='{words}')"
        for name in refused
    ]


def _control(name: str) -> bool:
    if name in _available():
        return True
    if not shutil.which("modprobe"):
        return False
    subprocess.run(["modprobe", "-q", f"tcp_{name}"], capture_output=True)
    return name in _available()


@cache
def _qdisc(kind: str) -> bool:
    """Tried on a device in a temporary namespace; the kernel loads modules."""
    arguments = _QDISC_ARGUMENTS.get(kind, kind)
    script = f"ip link add d0 type veth peer name d1 && tc qdisc add dev d0 root {arguments}"
    answer = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True)
    return answer.returncode == 0


def programs(_cell: Cell, settings: Settings, folder: Path) -> Programs:
    return Programs(Path(settings.flowgen), Path(settings.tcpilot), folder)


def run_scripts(
    cells: list[tuple[Cell, Path]], settings: Settings, ended: Callable[[Path, Ended], None]
) -> None:
    """Runs the cells' scripts one after the other.  Raises CellError when one takes too long."""
    for cell, folder in cells:
        ended(folder, _run_script(cell, settings, folder))


def _run_script(cell: Cell, settings: Settings, folder: Path) -> Ended:
    with _cgroup(cell) as environment:
        command = ["unshare", *_UNSHARE, "sh", "-c", _FIRST, str(folder / SCRIPT)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=_prepare(environment.get("cgroup"), cell.relay_processor),
        )
        try:
            _, said = process.communicate(timeout=settings.timeout_s)
        except subprocess.TimeoutExpired:
            raise CellError(f"timed out after {settings.timeout_s:g} s") from None
        finally:
            process.kill()
            process.wait()
    return Ended(process.returncode, said.decode(errors="replace"))


def _has_cgroup(cell: Cell) -> bool:
    return cell.tuner.name != "none" or cell.measure.programs


def _cgroups() -> Path | None:
    """The place of cgroup v2."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)


@contextmanager
def _cgroup(cell: Cell) -> Iterator[dict[str, str]]:
    """A cgroup for a cell with a tuner, which then steers nothing else; or with counted programs,
    to exclude all others."""
    if not _has_cgroup(cell):
        yield {}
        return
    root = _cgroups()
    if root is None:
        raise CellError("there is no cgroup v2 here for the tuner; use --engine vm")
    place = root / f"tcplab-{os.getpid()}"
    place.mkdir()
    try:
        yield {"cgroup": str(place)}
    finally:
        for _ in range(50):
            try:
                place.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def _prepare(cgroup: str | None, not_on: int | None) -> Callable[[], None]:
    dies = die_with_parent()
    processors = os.sched_getaffinity(0) - {not_on}

    def prepare() -> None:
        if cgroup:
            Path(cgroup, "cgroup.procs").write_text("0")
        os.sched_setaffinity(0, processors)
        dies()

    return prepare
