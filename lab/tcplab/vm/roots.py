"""Other user lands for a machine, built with debootstrap and cached.

sid has programs for a newer libc than the host's: bpftune, the laboratory's peer for comparisons.
bookworm and trixie have a systemd able to be the first process.  Nothing in a root is started on
the host, except by debootstrap's chroot.  One of another architecture is only unpacked: no script
of its packages has run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tcplab.vm.apt import KEYRING, system_mirror
from tcplab.vm.arch import ARM64, Arch
from tcplab.vm.cache import cache_dir, locked, new_entry, say
from tcplab.vm.errors import SetupError, UnknownNameError

_MANIFEST = "tcplab-root.json"
_LAST_LINES = 3
_NO_DEBOOTSTRAP = "debootstrap is not installed; run: python -m tcplab.vm setup"


@dataclass(frozen=True)
class Recipe:
    suite: str
    packages: tuple[str, ...]
    foreign: Arch | None = None
    """Its architecture, if it is not this host's."""


# Packages for services, containers and their tests; a release's systemd is its first process.
_BOOTED = ("systemd-sysv", "dbus", "iproute2", "kmod", "procps")

_RECIPES = {
    "bookworm": Recipe("bookworm", (*_BOOTED, "libelf1", "runc")),
    "sid": Recipe(
        "sid", ("bpftune", "iperf3", "iproute2", "kmod", "procps", "libelf1t64", "bpftool")
    ),
    # The compiler of sid's kernels, for extra.py.
    "sid-build": Recipe("sid", ("gcc", "make", "libelf1t64", "pahole")),
    "trixie": Recipe("trixie", (*_BOOTED, "libelf1t64", "crun")),
    "trixie-arm64": Recipe("trixie", ("busybox-static", "iproute2", "kmod", "procps"), ARM64),
}


def names() -> list[str]:
    return list(_RECIPES)


def resolve(name_or_folder: str) -> Path:
    """The folder of a root; one named in the table is built if it is not cached."""
    if name_or_folder in _RECIPES:
        return fetch(name_or_folder)
    folder = Path(name_or_folder).absolute()
    if not (folder / "bin").exists():
        raise UnknownNameError(
            f"no root {name_or_folder!r}: neither {', '.join(_RECIPES)} nor a folder with bin/"
        )
    return folder


def fetch(name: str) -> Path:
    """The root's folder in the cache, built on first use (some minutes)."""
    folder = cache_dir() / "roots" / name
    recipe = _RECIPES[name]
    with locked(folder.parent, name):
        if not _is_whole(folder, recipe):
            _build(folder, recipe)
    return folder


def missing(name: str) -> list[str]:
    """The obstacle to building the root on this host; nothing if the root exists."""
    if _is_whole(cache_dir() / "roots" / name, _RECIPES[name]):
        return []
    found = [] if shutil.which("debootstrap") else [_NO_DEBOOTSTRAP]
    return found if os.geteuid() == 0 else [*found, f"only root can build the root {name}"]


def _is_whole(folder: Path, recipe: Recipe) -> bool:
    try:
        recorded = json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    return bool(recorded.get("packages") == list(recipe.packages))


def _build(folder: Path, recipe: Recipe) -> None:
    say(f"building the root {folder.name} from Debian {recipe.suite}; this takes minutes")
    command = ["debootstrap", "--variant=minbase", f"--keyring={KEYRING}"]
    if recipe.foreign:
        command += ["--foreign", f"--arch={recipe.foreign.debian}"]
    command += [f"--include={','.join(recipe.packages)}", recipe.suite]
    with new_entry(folder) as new:
        try:
            answer = subprocess.run(
                [*command, str(new), system_mirror()], capture_output=True, text=True
            )
        except FileNotFoundError as absent:
            raise SetupError(_NO_DEBOOTSTRAP) from absent
        if answer.returncode != 0:
            last = " / ".join(answer.stdout.strip().splitlines()[-_LAST_LINES:])
            raise SetupError(f"debootstrap of {recipe.suite} failed: {last}")
        if recipe.foreign:
            _unpack(new)
        (new / _MANIFEST).write_text(json.dumps({"packages": recipe.packages}) + "\n")


def _unpack(root: Path) -> None:
    """The packages fetched by debootstrap for its second stage, which would run their scripts."""
    for deb in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        answer = subprocess.run(["dpkg", "-x", deb, root], capture_output=True, text=True)
        if answer.returncode != 0:
            raise SetupError(f"{deb.name} cannot be unpacked: {answer.stderr.strip()}")
        deb.unlink()
