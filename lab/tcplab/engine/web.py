"""nginx on the sender's host, for flows of kind http: curl downloads from it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tcplab import topology
from tcplab.engine.errors import EngineError
from tcplab.scenario.model import Cell
from tcplab.traffic.plan import WEB_PORT, plan
from tcplab.vm.cache import cache_dir, locked, new_entry, say

CONFIGURATION = "nginx.conf"
_PLACE = "/run/tcplab-web"
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_TEMPORARY = ("client_body", "fastcgi", "proxy", "scgi", "uwsgi")


def is_wanted(cell: Cell) -> bool:
    """Whether one of its flows downloads."""
    return any(flow.is_web for flow in cell.present())


def missing(cells: Sequence[Cell]) -> list[str]:
    """A sentence for each program neither installed nor obtainable."""
    if not any(is_wanted(cell) for cell in cells):
        return []
    _nginx()
    return [] if shutil.which("curl") else ["curl is missing; apt-get install curl"]


def files(cell: Cell) -> dict[str, str]:
    """nginx as packaged, except for folders writable by a cell."""
    if not is_wanted(cell):
        return {}
    address = topology.with_port("::" if 6 in topology.versions(cell) else "0.0.0.0", WEB_PORT)
    only = " ipv6only=off" if 6 in topology.versions(cell) else ""
    temporary = "".join(f"{name}_temp_path {_PLACE}/{name}; " for name in _TEMPORARY)
    text = f"""\
user root;
worker_processes auto;
pid {_PLACE}/pid;
events {{ worker_connections 1024; }}
http {{
    sendfile on;
    tcp_nopush on;
    access_log off;
    {temporary.rstrip()}
    server {{ listen {address}{only}; root {_PLACE}/files; }}
}}
"""
    return {CONFIGURATION: text}


def start(cell: Cell, seed: int) -> list[str]:
    """Shell lines to make the sparse files and start it.

    It ends with the cell's namespace of processes.
    """
    if not is_wanted(cell):
        return []
    groups = [group for group in plan(cell, seed)["flows"] if group["fetch"]]
    sizes = sorted({size for group in groups for size in group["work"]["bytes"]})
    nginx = shlex.join([str(_nginx()), "-p", _PLACE, "-e", "stderr"])
    return [
        'step web "nginx"',
        f"mkdir -p {_PLACE}/files",
        *(f"truncate -s {size} {_PLACE}/files/{size}" for size in sizes),
        f'in_ns left {nginx} -c "$PWD/{CONFIGURATION}" 2>nginx.err ||',
        '    fail "nginx: $(tail -n 1 nginx.err)"',
        # Whatever a download needs is read before the measured time: curl, its libraries, nginx.
        "in_ns left curl --disable --silent --noproxy '*' --output /dev/null "
        f"http://127.0.0.1:{WEB_PORT}/{sizes[0]} || fail 'curl: nothing came from nginx'",
    ]


def _nginx() -> Path:
    """The host's, else Debian's, unpacked into the cache.

    To install it would start a server on port 80.
    """
    found = shutil.which("nginx", path=_PATH)
    if found:
        return Path(found)
    place = cache_dir() / "programs"
    program = place / "nginx" / "usr" / "sbin" / "nginx"
    with locked(place, "nginx"):
        if not program.exists():
            say("fetching nginx")
            with new_entry(place / "nginx") as new:
                _unpack("nginx", new)
    return program


def _unpack(package: str, folder: Path) -> None:
    """The system's apt checks its downloads against its signed indexes."""
    for command in (
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package],
        ["sh", "-c", 'dpkg -x ./*.deb . && rm ./*.deb && test -x "$0"', f"usr/sbin/{package}"],
    ):
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if answer.returncode != 0:
            said = " ".join(answer.stderr.split())
            raise EngineError(f"there is no {package}, and it could not be fetched: {said}")
