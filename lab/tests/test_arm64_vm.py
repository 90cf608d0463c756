"""The static binary for arm64, under Debian's arm64 kernels in emulated machines.

`make arm64-test` builds it before.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tcplab.vm import Machine, roots, run

pytestmark = pytest.mark.arm64

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "target" / "aarch64-unknown-linux-gnu" / "release"
KERNELS = ["6.1-arm64", "6.12-arm64", "7.2-arm64"]
LIMIT_S = 1800.0
# The algorithms of bpf/cc, a file each.
ALGORITHMS = len(list((ROOT / "bpf" / "cc").glob("*.bpf.c")))


@cache
def seen(kernel: str) -> dict[str, str]:
    """The output of the guest's script, by name."""
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


def of(facts: dict[str, str], name: str) -> Any:
    """A fact from JSON."""
    return json.loads(facts[name])


def test_it_runs_on_arm64_and_attaches(facts: dict[str, str]) -> None:
    assert facts["machine"] == "aarch64"
    status = of(facts, "status")
    assert (status["attached"], status["degraded"]) == (True, [])
    assert status["kernel"] == facts["kernel"]


def test_it_chooses_for_connections_and_learns_from_them(facts: dict[str, str]) -> None:
    assert facts["before"] == "cubic"
    status = of(facts, "status")
    assert status["connections"]["drawn"] >= 100
    assert status["learning"]["updates"] >= 100
    assert status["learning"]["dropped"] == 0
    (path,) = [p for p in of(facts, "paths")["paths"] if p["prefix"] == "10.9.0.2"]
    arms = {arm["name"]: arm for arm in path["algorithms"]}
    assert arms["bbr"]["share"] > arms["cubic"]["share"]
    assert arms["bbr"]["effect"] > 0
    last = json.loads(facts["uploads_after"][facts["uploads_after"].rindex('{"summary"') :])
    assert last["by_cc"]["bbr"] > last["by_cc"].get("cubic", 0)


def test_after_its_end_the_kernels_default_is_back(facts: dict[str, str]) -> None:
    assert (facts["end_status"], facts["after"]) == ("0", "cubic")


def test_each_congestion_control_loads_and_carries_data(facts: dict[str, str]) -> None:
    assert (facts["cc_status"], facts["cc_loaded"]) == ("0", str(ALGORITHMS)), facts["cc"]
