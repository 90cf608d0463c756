"""Debian's kernels, fetched and cached: the table is kernels.toml, `fetch` does the rest.

A cached kernel works offline.  Every use checks the hash of the boot files; a damaged entry is
built again.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

from tcplab.vm import arch, own, vmlinux
from tcplab.vm.apt import Package, PrivateApt
from tcplab.vm.cache import cache_dir, listing_sha256, locked, new_entry, say, sha256_of
from tcplab.vm.errors import SetupError, UnknownNameError

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Source:
    """The source of a kernel; one entry of kernels.toml."""

    name: str
    suites: tuple[str, ...]
    packages: tuple[str, ...]
    arch: str = arch.AMD64.debian


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache, ready to boot.  Its files lie below `folder`."""

    name: str
    release: str
    version: str
    suite: str
    vmlinux_sha256: str
    modules_sha256: str
    packages: tuple[Package, ...]
    folder: Path
    arch: str = arch.AMD64.debian

    @property
    def vmlinux(self) -> Path:
        return self.folder / "vmlinux"

    @property
    def modules_base(self) -> Path:
        """The folder to give to `modprobe -d`."""
        return self.folder / "root"

    @property
    def modules(self) -> Path:
        return self.modules_base / "lib" / "modules" / self.release


def sources() -> dict[str, Source]:
    """The table, oldest kernel first."""
    text = (Path(__file__).parent / "kernels.toml").read_text()
    return {
        name: Source(
            name,
            tuple(entry["suites"]),
            tuple(entry["packages"]),
            entry.get("arch", arch.AMD64.debian),
        )
        for name, entry in tomllib.loads(text)["kernels"].items()
    }


def all_names() -> list[str]:
    """The meaning of `all`: the kernels of this host's architecture."""
    return [name for name, entry in sources().items() if entry.arch == arch.host().debian]


def source(name: str) -> Source:
    known = sources()
    if name not in known:
        raise UnknownNameError(
            f"no kernel {name!r} in kernels.toml; it has {', '.join(known)}; "
            "a file needs a slash, as in ./bzImage"
        )
    return known[name]


def version_key(text: str) -> list[int]:
    """Orders kernel releases: by the numbers in them, with 6.1.0-9 before 6.1.0-47."""
    return [int(number) for number in re.findall(r"\d+", text)]


def select(patterns: tuple[str, ...], available: list[Package]) -> tuple[str, list[Package]]:
    """The newest complete release in `available`, and its packages.

    Raises LookupError if there is none.
    """
    newest_first = sorted(available, key=lambda p: version_key(p.version), reverse=True)
    by_release: dict[str, Package] = {}
    for package in newest_first:
        if match := re.fullmatch(patterns[0], package.name):
            by_release.setdefault(match["release"], package)
    for release in sorted(by_release, key=version_key, reverse=True):
        first = by_release[release]
        names = [pattern.replace("RELEASE", release) for pattern in patterns[1:]]
        rest = [
            package
            for name in names
            for package in newest_first
            if package.name == name and package.version == first.version
        ]
        if len(rest) == len(names):
            return release, [first, *rest]
    raise LookupError(patterns[0])


def cached(name: str) -> Kernel | None:
    """The kernel if its entry is whole, else None; the boot files are hashed again."""
    folder = cache_dir() / "kernels" / source(name).name
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        manifest["packages"] = tuple(Package(**package) for package in manifest["packages"])
        kernel = Kernel(folder=folder, **manifest)
        damaged = (
            sha256_of(kernel.vmlinux) != kernel.vmlinux_sha256
            or listing_sha256(kernel.modules) != kernel.modules_sha256
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        say(f"the cached kernel {name} cannot be read ({problem})")
        return None
    if damaged:
        say(f"the cached kernel {name} is damaged ({folder})")
    return None if damaged else kernel


def fetch(name: str) -> Kernel:
    """The kernel from the cache, else from Debian (150 MB and more); or one's own, by its path."""
    if own.is_path(name):
        return _own(name)
    wanted = source(name)
    with locked(cache_dir() / "kernels", name):
        return cached(name) or _fetch_anew(wanted)


def _own(name: str) -> Kernel:
    release, digest, folder = own.prepare(name)
    return Kernel(
        name=release,
        release=release,
        version=f"{release} {digest[:16]}",
        suite="own",
        vmlinux_sha256=sha256_of(folder / "vmlinux"),
        modules_sha256=listing_sha256(folder / "root/lib/modules" / release),
        packages=(),
        folder=folder,
    )


def _fetch_anew(wanted: Source) -> Kernel:
    apt, release, packages = _find(wanted)
    folder = cache_dir() / "kernels" / wanted.name
    with new_entry(folder) as new:
        debs = [download(apt, package, new) for package in packages]
        say(f"unpacking {release}")
        root = new / "root"
        for deb in debs:
            check_run(["dpkg", "-x", str(deb), str(root)])
            deb.unlink()
        _finish_modules(root, release)
        image = vmlinux.image_of(_find_vmlinuz(root, release).read_bytes(), wanted.arch)
        (new / "vmlinux").write_bytes(image)
        kernel = Kernel(
            name=wanted.name,
            release=release,
            version=packages[0].version,
            suite=apt.suites[0],
            vmlinux_sha256=sha256_of(new / "vmlinux"),
            modules_sha256=listing_sha256(root / "lib/modules" / release),
            packages=tuple(packages),
            folder=folder,
            arch=wanted.arch,
        )
        (new / _MANIFEST).write_text(_manifest_of(kernel))
    say(f"kernel {wanted.name} is {release}, version {kernel.version}, in {folder}")
    return kernel


def _manifest_of(kernel: Kernel) -> str:
    fields = asdict(kernel)
    del fields["folder"]  # The entry may be moved with the cache.
    return json.dumps(fields, indent=2) + "\n"


def _find(wanted: Source) -> tuple[PrivateApt, str, list[Package]]:
    pattern = "|".join(re.sub("RELEASE", ".*", p) for p in wanted.packages)
    for suite in wanted.suites:
        apt = PrivateApt(cache_dir() / "apt", (suite,), arch.of(wanted.arch))
        say(f"looking for kernel {wanted.name} in Debian {suite}")
        with locked(cache_dir() / "apt", apt.home.name):
            apt.update()
        try:
            return apt, *select(wanted.packages, apt.packages(pattern))
        except LookupError:
            continue
    raise SetupError(
        f"Debian {', '.join(wanted.suites)} has no kernel {wanted.name} any more; "
        f"name another suite in kernels.toml (pattern {wanted.packages[0]})"
    )


def has_module(kernel: Kernel, name: str) -> bool:
    """Whether the kernel comes with it, built in or as a file."""
    listed = ""
    for index in ("modules.dep", "modules.builtin"):
        for path in kernel.modules.glob(index):
            listed += path.read_text()
    return f"/{name}.ko" in listed


def download(apt: PrivateApt, package: Package, folder: Path) -> Path:
    """Fetches one .deb into `folder`, and compares its hash with the signed index's."""
    say(f"downloading {package.name} {package.version}, {package.size_bytes / 1e6:.0f} MB")
    deb = apt.download(package, folder)
    if sha256_of(deb) != package.sha256:
        raise SetupError(
            f"{deb.name} has another SHA256 than Debian's signed index says; fetch again, "
            "and if it persists change the mirror"
        )
    return deb


def _finish_modules(root: Path, release: str) -> None:
    # Since trixie the packages use /usr/lib only and rely on the merged /usr of a real root.
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    check_run(["depmod", "-b", str(root), release])


def _find_vmlinuz(root: Path, release: str) -> Path:
    for path in (root / f"boot/vmlinuz-{release}", root / f"lib/modules/{release}/vmlinuz"):
        if path.exists():
            return path
    raise SetupError(f"the packages of {release} hold no vmlinuz; correct kernels.toml")


def check_run(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise SetupError(f"{command[0]} is not installed; run: python -m tcplab.vm setup")
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SetupError(f"{' '.join(command)} failed: {answer.stderr.strip()}")
