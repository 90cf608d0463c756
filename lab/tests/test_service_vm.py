"""The package and its service under the systemd of Debian 12 and of Debian 13, each as the first
process of a machine.  Needs `make deb`, a part of `make machine-test`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import debs
import pytest

from tcplab.vm import Machine, Result, VmError, roots

pytestmark = pytest.mark.vm

# Of Linux 6.1, and from 6.4 on.
DEFAULTS = ["cubic bbr", "cubic bbr tp_bbr3"]


@pytest.fixture(scope="module")
def newer() -> Iterator[Path]:
    with debs.with_higher_version("tcpilot") as made:
        yield made


@cache
def ended(release: str, newer: Path) -> Result | VmError:
    machine = Machine(
        debs.RELEASES[release],
        root=roots.fetch(release),
        systemd=True,
        modules=["veth", "sch_prio", "tcp_bbr"],
        timeout_s=debs.LIMIT_S,
        memory="1G",
    )
    flowgen = debs.ROOT / "target" / "release" / "flowgen"
    packages = [debs.package("tcpilot"), newer, debs.package("tcpilot-doc")]
    return debs.ended(machine, "service_guest.sh", [*packages, flowgen])


@pytest.fixture(params=debs.RELEASES)
def facts(request: pytest.FixtureRequest, newer: Path) -> dict[str, str]:
    return debs.seen(ended(request.param, newer))


def test_installing_starts_nothing(facts: dict[str, str]) -> None:
    assert (facts["installed"], facts["started_unasked"]) == ("installed", "inactive")
    assert facts["manual"] == "2"


def test_the_service_is_started_when_it_is_attached(facts: dict[str, str]) -> None:
    assert (facts["start_status"], facts["attached_at_once"]) == ("0", "true")
    assert facts["active"] == "active running"
    assert facts["status_text"] in [f"steers /sys/fs/cgroup with {names}" for names in DEFAULTS]
    assert facts["degraded"] == ""


def test_it_has_three_capabilities_and_is_well_confined(facts: dict[str, str]) -> None:
    net_admin, perfmon, bpf = 12, 38, 39
    assert int(facts["capabilities"], 16) == 1 << net_admin | 1 << perfmon | 1 << bpf
    assert facts["exposure"] == "0"
    assert float(facts["exposure_level"]) <= 2.5


def test_watchdog_replaces_only_a_hanging_daemon(facts: dict[str, str]) -> None:
    assert facts["alive_after_twenty_seconds"] == "yes 0"
    assert facts["replaced_when_it_hangs"] == "1 active"
    assert int(facts["told_why"]) >= 1


def test_a_reload_succeeds_or_says_why_not(facts: dict[str, str]) -> None:
    assert (facts["reload_status"], facts["reloaded"]) == ("0 active", "1 same")
    expected = [f"steers /sys/fs/cgroup with {names} reno" for names in DEFAULTS]
    assert facts["reloaded_text"] in expected
    assert facts["refused_status"] == "1 active 1"
    assert int(facts["refused_reason"]) >= 1


def test_a_signal_is_a_reload_to_systemd_too(facts: dict[str, str]) -> None:
    assert facts["reloading"] == "reloading"
    assert facts["reloaded_by_signal"] == "2 active"


def test_queues_for_acknowledgements_work_in_the_service(facts: dict[str, str]) -> None:
    assert (facts["queue"], facts["queue_degraded"]) == ("prio", "")
    assert facts["queue_after"] == "noqueue"


def test_an_upgrade_under_load_detaches_nothing(facts: dict[str, str]) -> None:
    assert (facts["upgrade_status"], facts["upgraded"]) == ("0", "1 same active")
    assert facts["program"] == "/usr/bin/tcpilot"
    assert facts["load"].split() == ['"alive_at_end":50', '"errors":0']


def test_the_documented_drop_in_allows_entering_namespaces(facts: dict[str, str]) -> None:
    assert facts["namespaces"] == '"netns":"host"'
    assert facts["drop_in"] == "[Service] CapabilityBoundingSet=CAP_SYS_ADMIN"
    assert facts["namespaces_entered"] == '"netns":"far""netns":"host"'


def test_a_purge_leaves_nothing(facts: dict[str, str]) -> None:
    assert facts["removed"] == "0  state.db"
    assert (facts["purged"], facts["unit_gone"]) == ("0 0", "1")
