"""The harness's Debian packages on the host, and their installation."""

from __future__ import annotations

import os
import subprocess

from tcplab.vm.cache import say
from tcplab.vm.errors import SetupError

# By package, because a program name says less: qemu-system-x86 emulates, busybox is the
# initramfs, kmod resolves modules, zstd unpacks kernels, debootstrap builds roots.
NEEDED = (
    "busybox",
    "debian-archive-keyring",
    "debootstrap",
    "iproute2",
    "kmod",
    "qemu-system-x86",
    "zstd",
)
# Packages accepted in place of a conflicting one.
_ALTERNATIVES = {"busybox": "busybox-static"}


def missing() -> list[str]:
    """The missing packages of NEEDED."""
    installed = _installed()
    return [p for p in NEEDED if p not in installed and _ALTERNATIVES.get(p) not in installed]


def install(names: list[str]) -> None:
    """Installs `names` with the system's apt."""
    if os.geteuid() != 0:
        raise SetupError(f"only root can install packages: sudo apt-get install {' '.join(names)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    say(f"installing {' '.join(names)}")
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        if subprocess.run(["apt-get", "-q", *arguments], env=environment).returncode != 0:
            raise SetupError(f"apt-get {arguments[0]} failed, its output is above")


def _installed() -> set[str]:
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True)
    except FileNotFoundError as absent:
        raise SetupError("dpkg is missing: the harness needs a Debian host") from absent
    lines = (line.split() for line in answer.stdout.splitlines())
    return {words[1] for words in lines if len(words) == 2 and words[0] == "installed"}
