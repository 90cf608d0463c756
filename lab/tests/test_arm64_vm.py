"""The static binary for arm64, under Debian's arm64 kernels in emulated machines.

`make arm64-test` builds it before.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tcplab.vm import Machine, roots, run

pytestmark = pytest.mark.arm64

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "target" / "aarch64-unknown-linux-gnu" / "release"
KERNELS = ["6.1-arm64", "6.12-arm64", "7.2-arm64"]
LIMIT_S = 1800.0


@cache
def seen(kernel: str) -> dict[str, str]:
    """What the guest's script printed, by name."""
    machine = Machine(
        kernel,
        root=roots.fetch("trixie-arm64"),
        virtual_time=True,
        modules=["veth", "sch_netem", "tcp_bbr"],
        timeout_s=LIMIT_S,
    )
    files = [Path(__file__).parent / "arm64_guest.sh", BUILT / "tcpilot", BUILT / "flowgen"]
    inside = [str(Path("/host") / file.relative_to("/")) for file in files]
    result = run(machine, ["sh", *inside], cwd=ROOT)
    print(result.stdout.decode(), result.stderr.decode())
    print(f"{result.boot_s:.0f} s to boot, {result.wall_s:.0f} s in all")
    assert result.status == 0
    lines = (line.partition(" ") for line in result.stdout.decode().splitlines())
    return {name: value.strip() for name, _, value in lines}


@pytest.fixture(params=KERNELS)
def facts(request: pytest.FixtureRequest) -> dict[str, str]:
    return seen(request.param)
