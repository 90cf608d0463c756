"""What a node's container runtime is given for a pod: a bundle's config.json from the manifest
(github.com/opencontainers/runtime-spec), as containerd's CRI makes it.

Seccomp and AppArmor are left out: their profiles belong to the runtime, not to the manifest.
"""

from __future__ import annotations

from typing import Any

ENTRYPOINT = ["/usr/bin/tcpilot"]
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"]
READONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
# If a container drops none: containerd's defaults, as far as one could matter here.
DEFAULT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_RAW", "SETGID", "SETUID"]
OWN_MOUNTS: list[dict[str, Any]] = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "ro"]},
    {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]},
]


def config(pod: dict[str, Any], cgroup: str, config_maps: str) -> dict[str, Any]:
    """For the only container of a pod; the files of a config map lie in `config_maps`/NAME."""
    (container,) = pod["containers"]
    security = container["securityContext"]
    mounts = volumes(pod, container, config_maps)
    replaced = {mount["destination"] for mount in mounts}
    namespaces = ["pid", "ipc", "uts", "mount", "cgroup"]
    if not pod.get("hostNetwork"):
        namespaces.append("network")
    kept = capabilities(security["capabilities"])
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
            "args": [*ENTRYPOINT, *container["args"]],
            "env": [PATH],
            "cwd": "/",
            "capabilities": {kind: kept for kind in ("bounding", "effective", "permitted")},
            "noNewPrivileges": not security["allowPrivilegeEscalation"],
        },
        "root": {"path": "rootfs", "readonly": security["readOnlyRootFilesystem"]},
        "mounts": [m for m in OWN_MOUNTS if m["destination"] not in replaced] + mounts,
        "linux": {
            "namespaces": [{"type": kind} for kind in namespaces],
            "cgroupsPath": cgroup,
            "maskedPaths": MASKED,
            "readonlyPaths": READONLY,
        },
    }


def capabilities(wanted: dict[str, list[str]]) -> list[str]:
    """With their full names."""
    drop = wanted.get("drop", [])
    kept = [] if "ALL" in drop else [c for c in DEFAULT_CAPABILITIES if c not in drop]
    return [f"CAP_{name}" for name in [*kept, *wanted.get("add", [])]]


def volumes(
    pod: dict[str, Any], container: dict[str, Any], config_maps: str
) -> list[dict[str, Any]]:
    """Bind mounts of the host's folders."""
    sources = {}
    for volume in pod["volumes"]:
        if "hostPath" in volume:
            sources[volume["name"]] = volume["hostPath"]["path"]
        else:
            sources[volume["name"]] = f"{config_maps}/{volume['configMap']['name']}"
    return [
        {
            "destination": mount["mountPath"],
            "type": "bind",
            "source": sources[mount["name"]],
            "options": ["rbind", "rprivate", "ro" if mount.get("readOnly") else "rw"],
        }
        for mount in container["volumeMounts"]
    ]
