"""Modules left out of Debian's kernels, built from Debian's own source for machines only.

kernels.toml names them.  A module is made from one file of linux-source, with the headers of the
cached kernel, by the gcc of the root `sid-build`.  It is kept in the cache and loaded from there:
neither the source nor the module is part of this package, and this host never loads it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tcplab.vm import kernels, roots
from tcplab.vm.apt import Package, PrivateApt
from tcplab.vm.cache import cache_dir, locked, new_entry, say, sha256_of
from tcplab.vm.errors import SetupError, UnknownNameError
from tcplab.vm.kernels import Kernel

_MANIFEST = "manifest.json"
_ROOT = "sid-build"
_LAST_LINES = 3

_BUILD = """\
set -e
mount -t tmpfs tmpfs "$place/over"
mkdir "$place/over/upper" "$place/over/work" "$place/over/all"
mount -t overlay overlay "$place/over/all" \\
    -o "lowerdir=$place/headers:$root,upperdir=$place/over/upper,workdir=$place/over/work"
mount -t proc proc "$place/over/all/proc"
cp -r "$place/module" "$place/over/all/module"
chroot "$place/over/all" make -C "/usr/src/linux-headers-$release" M=/module modules
cp "$place/over/all/module/$name.ko" "$place/$name.ko"
"""
"""The headers name each other by absolute paths, so they are laid over the root.  In a mount
namespace of its own, and all writes go to memory."""


def sources(kernel: str) -> dict[str, str]:
    """Buildable modules for a kernel of kernels.toml, with their file in its source."""
    text = (Path(__file__).parent / "kernels.toml").read_text()
    table = tomllib.loads(text)["modules"]
    return {name: entry["source"] for name, entry in table.items() if kernel in entry["kernels"]}


def offered(kernel: Kernel, name: str) -> bool:
    """Whether this kernel lacks the module, and it can be built."""
    return name in sources(kernel.name) and not kernels.has_module(kernel, name)


def prepare(kernel: Kernel, names: Sequence[str]) -> dict[str, Path]:
    """The built files of the kernel's missing and buildable modules among `names`, by name."""
    return {name: fetch(kernel, name) for name in names if offered(kernel, name)}


def fetch(kernel: Kernel, name: str) -> Path:
    """The module from the cache, else built (some minutes, 180 MB from Debian).

    Raises SetupError if Debian no longer has the packages of the cached kernel.
    """
    known = sources(kernel.name)
    if name not in known:
        have = ", ".join(known) or "none"
        raise UnknownNameError(
            f"kernels.toml has no module {name!r} for {kernel.name}; it has {have}"
        )
    folder = cache_dir() / "modules" / f"{kernel.release}-{name}"
    with locked(folder.parent, folder.name):
        if not _is_whole(folder, name):
            _build(kernel, name, known[name], folder)
    return folder / f"{name}.ko"


def _is_whole(folder: Path, name: str) -> bool:
    try:
        recorded = json.loads((folder / _MANIFEST).read_text())
        whole = sha256_of(folder / f"{name}.ko") == recorded["sha256"]
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError) as problem:
        say(f"the cached module {name} cannot be read ({problem})")
        return False
    if not whole:
        say(f"the cached module {name} is damaged ({folder})")
    return bool(whole)


def needed(kernel: Kernel) -> list[str]:
    """Names of this kernel's packages: headers, build tools and source."""
    base, flavour = kernel.release.rsplit("-", 1)
    series = ".".join(base.split(".")[:2])
    headers = [f"linux-headers-{base}-{flavour}", f"linux-headers-{base}-common"]
    return [*headers, f"linux-kbuild-{base}", f"linux-source-{series}"]


def of_kernel(kernel: Kernel, available: Sequence[Package]) -> list[Package]:
    """The packages of exactly this kernel's version; the kernel would refuse a module from another
    version's.  Raises SetupError if one is missing."""
    found = {p.name: p for p in available if p.version == kernel.version}
    missing = [name for name in needed(kernel) if name not in found]
    if missing:
        raise SetupError(
            f"Debian {kernel.suite} has no {', '.join(missing)} {kernel.version} any more; delete "
            f"{kernel.folder} and run: python -m tcplab.vm fetch {kernel.name}"
        )
    return [found[name] for name in needed(kernel)]


def _build(kernel: Kernel, name: str, source: str, folder: Path) -> None:
    if os.geteuid() != 0:
        raise SetupError(f"only root can build {name}, which Debian's {kernel.release} lacks")
    root = roots.fetch(_ROOT)
    apt = PrivateApt(cache_dir() / "apt", (kernel.suite,))
    with locked(cache_dir() / "apt", kernel.suite):
        apt.update()
    packages = of_kernel(kernel, apt.packages("|".join(map(re.escape, needed(kernel)))))
    with new_entry(folder) as new, tempfile.TemporaryDirectory(dir=new) as temporary:
        place = Path(temporary)
        for inner in ("headers", "module", "over", "source"):
            (place / inner).mkdir()
        for package in packages:
            deb = kernels.download(apt, package, place)
            is_source = package.name.startswith("linux-source")
            kernels.check_run(
                ["dpkg", "-x", str(deb), str(place / ("source" if is_source else "headers"))]
            )
            deb.unlink()
        _one_file(place / "source", source, place / "module")
        (place / "module" / "Makefile").write_text(f"obj-m := {name}.o\n")
        _make(kernel, name, root, place)
        shutil.move(place / f"{name}.ko", new / f"{name}.ko")
        record = {
            "kernel": kernel.version,
            "source": source,
            "sha256": sha256_of(new / f"{name}.ko"),
            "packages": [asdict(package) for package in packages],
        }
        (new / _MANIFEST).write_text(json.dumps(record, indent=2) + "\n")
    say(f"the module {name} of {kernel.release} is in {folder}")


def _one_file(unpacked: Path, source: str, to: Path) -> None:
    """Takes one of 90,000 files out of the archive in linux-source."""
    archives = list(unpacked.glob("usr/src/linux-source-*.tar.xz"))
    if len(archives) != 1:
        raise SetupError(f"linux-source holds {len(archives)} archives; correct tcplab.vm.extra")
    with tarfile.open(archives[0], "r|xz") as archive:
        for member in archive:
            if member.isfile() and member.name.partition("/")[2] == source:
                content = archive.extractfile(member)
                if content is not None:
                    (to / Path(source).name).write_bytes(content.read())
                    return
    raise SetupError(f"{archives[0].name} has no {source}; correct kernels.toml")


def _make(kernel: Kernel, name: str, root: Path, place: Path) -> None:
    say(f"building {name} for {kernel.release}")
    variables = {"place": place, "root": root, "release": kernel.release, "name": name}
    environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _BUILD]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    if answer.returncode != 0:
        last = " / ".join(answer.stderr.strip().splitlines()[-_LAST_LINES:])
        raise SetupError(f"building {name} for {kernel.release} failed: {last}")
