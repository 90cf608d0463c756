"""For tests of packages in machines: the packages of `make deb`, and what a guest's script saw."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tcplab.vm import Machine, Result, VmError, run

ROOT = Path(__file__).parents[2]
# The systemd of each: 252 has no Type=notify-reload, 257 has.
RELEASES = {"bookworm": "6.1", "trixie": "6.12"}
LIMIT_S = 900.0


def package(name: str) -> Path:
    folder = ROOT / "target" / "deb"
    found = sorted(one for kind in ("amd64", "all") for one in folder.glob(f"{name}_*_{kind}.deb"))
    assert found, "there is no package; run: make deb"
    return found[-1]


@contextmanager
def with_higher_version(name: str) -> Iterator[Path]:
    """The same package with a higher version."""
    # Not in /tmp: a machine has its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tcpilot-test-") as made:
        folder = Path(made)
        subprocess.run(["dpkg-deb", "-R", package(name), folder / "files"], check=True)
        control = folder / "files" / "DEBIAN" / "control"
        lines = control.read_text().splitlines()
        lines = ["Version: 99.0" if line.startswith("Version:") else line for line in lines]
        control.write_text("\n".join(lines) + "\n")
        build = ["dpkg-deb", "--root-owner-group", "-b"]
        paths = [folder / "files", folder / "newer.deb"]
        subprocess.run([*build, *paths], check=True, capture_output=True)
        yield folder / "newer.deb"


def ended(machine: Machine, script: str, files: list[Path]) -> Result | VmError:
    """How the guest's script ended; a failure is an answer, too, so that nobody tries it again."""
    whole = [Path(__file__).parent / script, *files]
    inside = [str(Path("/host") / file.relative_to("/")) for file in whole]
    try:
        return run(machine, ["sh", *inside], cwd=ROOT)
    except VmError as problem:
        return problem


def seen(result: Result | VmError) -> dict[str, str]:
    """Its output, by name."""
    if isinstance(result, VmError):
        raise result
    assert result.status == 0, (result.status, result.stderr.decode())
    lines = (line.partition(" ") for line in result.stdout.decode().splitlines())
    return {name: value.strip() for name, _, value in lines}
