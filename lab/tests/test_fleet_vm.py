"""The package of the fleet's agent and its service under the systemd of Debian 12 and of Debian 13,
each as the first process of a machine.  Needs `make deb`, a part of `make machine-test`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import debs
import pytest

from tcplab.vm import Machine, Result, VmError, roots

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def newer() -> Iterator[Path]:
    with debs.with_higher_version("tcpilot-fleet") as made:
        yield made


@cache
def ended(release: str, newer: Path) -> Result | VmError:
    machine = Machine(
        debs.RELEASES[release],
        root=roots.fetch(release),
        systemd=True,
        timeout_s=debs.LIMIT_S,
        memory="1G",
    )
    packages = [debs.package("tcpilot"), debs.package("tcpilot-fleet"), newer]
    manual = debs.ROOT / "docs" / "use" / "fleet.md"
    return debs.ended(machine, "fleet_guest.sh", [*packages, manual])


@pytest.fixture(params=debs.RELEASES)
def facts(request: pytest.FixtureRequest, newer: Path) -> dict[str, str]:
    return debs.seen(ended(request.param, newer))


def test_installing_starts_nothing(facts: dict[str, str]) -> None:
    assert (facts["installed"], facts["started_unasked"]) == ("installed", "inactive inactive")


def test_missing_settings_are_named(facts: dict[str, str]) -> None:
    assert int(facts["without_settings"]) >= 1


def test_the_agent_shares_a_folder_as_a_service(facts: dict[str, str]) -> None:
    assert (facts["start_status"], facts["running"]) == ("0", "active running")
    assert facts["says"] == "agent    a at fra1, running"
    assert facts["hears"] == "b no: it says nothing under a policy of this host"


def test_it_has_a_user_and_no_capability(facts: dict[str, str]) -> None:
    assert facts["user"] == "tcpilot-fleet:/var/lib/tcpilot-fleet:/usr/sbin/nologin"
    assert facts["process_user"] == "tcpilot-fleet"
    assert [int(word, 16) for word in facts["capabilities"].split()] == [0, 0, 0, 0]
    assert facts["no_new_privileges"] == "1"
    assert facts["state_folder"] == "750 tcpilot-fleet 770 tcpilot-fleet"
    assert facts["exposure"] == "0"
    assert float(facts["exposure_level"]) <= 2.5


def test_the_documented_drop_in_joins_daemon_and_agent(facts: dict[str, str]) -> None:
    assert facts["drop_in_lines"] == "7"
    assert (facts["daemon"], facts["degraded"]) == ("active", "")
    assert facts["daemon_says"].startswith("fleet")
    assert facts["own_is_writable"] == "0"


def test_an_upgrade_restarts_only_what_runs(facts: dict[str, str]) -> None:
    assert (facts["upgrade_status"], facts["upgraded"]) == ("0", "active another")
    assert facts["program"] == "/usr/bin/tcpilot-fleet"
    assert facts["merger_after_upgrade"] == "inactive"


def test_a_purge_leaves_the_settings_only(facts: dict[str, str]) -> None:
    assert facts["removed"] == "0  kept"
    assert facts["daemon_goes_on"] == "active"
    assert (facts["purged"], facts["units_gone"]) == ("0 0", "1 0")
    assert facts["settings_stay"] == "fleet.toml tcpilot.toml"
