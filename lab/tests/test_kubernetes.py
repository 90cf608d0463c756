"""The manifests: against the schemas of Kubernetes, and against tcpilot's needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from oci import config

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "packaging" / "kubernetes"
# The oldest supported one, and the newest with schemas.
VERSIONS = ["1.33", kubernetes_validate.latest_version()]


def manifest(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text()))


def pod() -> dict[str, Any]:
    return dict(manifest("daemonset")["spec"]["template"]["spec"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["namespace", "daemonset"])
def test_manifests_match_the_schema_without_extra_fields(name: str, version: str) -> None:
    kubernetes_validate.validate(manifest(name), version, strict=True)


def test_a_misspelt_field_would_be_found() -> None:
    wrong = manifest("daemonset")
    wrong["spec"]["template"]["spec"]["hostNetworks"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_kustomization_names_existing_files_and_the_pods_image() -> None:
    whole = manifest("kustomization")
    files = [*whole["resources"], *whole["configMapGenerator"][0]["files"]]
    assert all((MANIFESTS / file).exists() for file in files)
    assert whole["configMapGenerator"][0]["name"] == pod()["volumes"][1]["configMap"]["name"]
    assert whole["images"][0]["name"] == pod()["containers"][0]["image"]


def test_container_is_read_only_with_the_services_capabilities() -> None:
    unit = (ROOT / "packaging" / "tcpilot.service").read_text()
    (line,) = [row for row in unit.splitlines() if row.startswith("CapabilityBoundingSet=")]
    bundle = config(pod(), "/kubepods/test", "/maps")
    assert set(bundle["process"]["capabilities"]["bounding"]) == set(line.partition("=")[2].split())
    assert bundle["root"]["readonly"]
    assert bundle["process"]["noNewPrivileges"]
    writable = [m["destination"] for m in bundle["mounts"] if "rw" in m.get("options", [])]
    assert writable == ["/var/lib/tcpilot", "/run/tcpilot"]


def test_container_mounts_the_hosts_cgroups() -> None:
    mounts = config(pod(), "/kubepods/test", "/maps")["mounts"]
    (cgroup,) = [mount for mount in mounts if mount["destination"] == "/sys/fs/cgroup"]
    assert (cgroup["type"], cgroup["source"]) == ("bind", "/sys/fs/cgroup")
