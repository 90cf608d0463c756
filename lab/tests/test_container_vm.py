"""The pod of the manifest on a node: runc under Debian 12, crun under Debian 13, each in a machine.
Needs the static binary from `make machine-test`."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from oci import config

from tcplab.vm import Machine, roots, run

pytestmark = pytest.mark.vm

ROOT = Path(__file__).parents[2]
BINARY = ROOT / "target" / "x86_64-unknown-linux-gnu" / "release" / "tcpilot"
LIMIT_S = 900.0
RELEASES = {"bookworm": "6.1", "trixie": "6.12"}


def unpack(image: Path, folder: Path) -> None:
    """The files of an image's only layer, found as a runtime finds them: from its index."""
    with tarfile.open(image) as layout:

        def document(name: str) -> Any:
            return json.load(layout.extractfile(name))  # type: ignore[arg-type]

        def blob(entry: dict[str, str]) -> str:
            return f"blobs/{entry['digest'].replace(':', '/')}"

        manifest = document(blob(document("index.json")["manifests"][0]))
        layer = layout.extractfile(blob(manifest["layers"][0]))
        with tarfile.open(fileobj=layer) as files:
            files.extractall(folder, filter="data")


@pytest.fixture(scope="module")
def bundles() -> Iterator[Path]:
    assert BINARY.exists(), "there is no static binary; run: make dist"
    # Not in /tmp: a machine has its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tcpilot-test-") as name:
        folder = Path(name)
        make = ROOT / "packaging" / "container" / "image"
        into = folder / "image"
        subprocess.run([sys.executable, make, BINARY, "amd64", "0", into], check=True)
        unpack(folder / "image", folder / "rootfs")
        manifest = yaml.safe_load((ROOT / "packaging/kubernetes/daemonset.yaml").read_text())
        pod = manifest["spec"]["template"]["spec"]
        node = config(pod, "/kubepods/tcpilot", "/run/maps")
        (folder / "node.json").write_text(json.dumps(node))
        (container,) = pod["containers"]
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "cgroup"]
        private = config(pod, "/kubepods/tcpilot", "/run/maps")
        (folder / "private.json").write_text(json.dumps(private))
        yield folder


@cache
def seen(release: str, bundles: Path) -> dict[str, str]:
    """The output of the guest's script, by name."""
    machine = Machine(
        RELEASES[release],
        root=roots.fetch(release),
        systemd=True,
        modules=["veth", "tcp_bbr"],
        sysctls={"net.ipv4.tcp_congestion_control": "cubic"},
        timeout_s=LIMIT_S,
    )
    flowgen = ROOT / "target" / "release" / "flowgen"
    files = [Path(__file__).parent / "container_guest.sh", bundles, flowgen]
    inside = [str(Path("/host") / file.relative_to("/")) for file in files]
    result = run(machine, ["sh", *inside], cwd=ROOT)
    assert result.status == 0, result.stderr.decode()
    lines = (line.partition(" ") for line in result.stdout.decode().splitlines())
    return {name: value.strip() for name, _, value in lines}


@pytest.fixture(params=RELEASES)
def facts(request: pytest.FixtureRequest, bundles: Path) -> dict[str, str]:
    return seen(request.param, bundles)


def test_the_connections_of_other_pods_are_steered(facts: dict[str, str]) -> None:
    assert facts["own_cgroup"] == "/kubepods/tcpilot"
    assert (facts["before"], facts["ready"], facts["steered"]) == ("cubic", "200 200", "bbr")


def test_it_has_the_manifests_capabilities_and_cannot_write(facts: dict[str, str]) -> None:
    net_admin, perfmon, bpf = 12, 38, 39
    assert int(facts["capabilities"], 16) == 1 << net_admin | 1 << perfmon | 1 << bpf
    assert facts["read_only"] == "1"


def test_a_new_pod_resumes_the_learned_paths(facts: dict[str, str]) -> None:
    assert facts["paths"] == "1"
    assert (facts["after_stop"], facts["paths_kept"], facts["steered_again"]) == (
        "cubic",
        "1",
        "bbr",
    )


def test_killed_pod_leaves_node_unchanged_and_is_replaceable(facts: dict[str, str]) -> None:
    assert (facts["after_kill"], facts["started_after_kill"]) == ("cubic", "200")


def test_without_the_hosts_cgroups_it_is_refused(facts: dict[str, str]) -> None:
    assert facts["private_status"] == "4"
    assert "is only a part of this host's cgroups" in facts["private_reason"]
