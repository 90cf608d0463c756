"""A private apt: Debian suites unused by the system, kept out of the system's apt.

Its lists, sources and archives live in our cache.  Mirror and proxy come from the system's
own apt configuration, and the archive's signatures are checked with its keyring.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tcplab.vm.arch import Arch, host
from tcplab.vm.errors import SetupError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# For a system other than Debian, such as Ubuntu.
DEFAULT_MIRROR = "http://deb.debian.org/debian"


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    size_bytes: int
    sha256: str


def mirror_of(sources: str) -> str | None:
    """The first Debian archive (not its security part) in one-line or deb822 sources."""
    uris = re.findall(r"^URIs:\s*(\S+)", sources, re.MULTILINE | re.IGNORECASE)
    uris += re.findall(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)", sources, re.MULTILINE)
    for uri in uris:
        if re.search(r"/debian/?$", uri):
            return str(uri).rstrip("/")
    return None


def system_mirror() -> str:
    """The Debian mirror of this machine's apt, else Debian's own."""
    folder = Path("/etc/apt/sources.list.d")
    paths = [Path("/etc/apt/sources.list"), *sorted(folder.glob("*.sources"))]
    for path in [*paths, *sorted(folder.glob("*.list"))]:
        if path.exists() and (mirror := mirror_of(path.read_text())):
            return mirror
    return DEFAULT_MIRROR


def parse_packages(text: str) -> list[Package]:
    """Packages in the output of `apt-cache show` or `dumpavail`, in its order."""
    packages = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", stanza, re.MULTILINE))
        if {"Package", "Version", "Size", "SHA256"} <= fields.keys():
            packages.append(
                Package(fields["Package"], fields["Version"], int(fields["Size"]), fields["SHA256"])
            )
    return packages


class PrivateApt:
    """apt with `suites` as its only sources, and all of its state below `home`."""

    def __init__(self, home: Path, suites: tuple[str, ...], arch: Arch | None = None) -> None:
        arch = arch or host()
        self.suites = suites
        self.home = home / "-".join(suites if arch == host() else (*suites, arch.debian))
        self._options = [
            *("-o", f"Dir::Etc::sourcelist={self.home}/debian.sources"),
            *("-o", "Dir::Etc::sourceparts=/dev/null"),
            *("-o", f"Dir::State::Lists={self.home}/lists"),
            *("-o", f"Dir::Cache={self.home}/cache"),
            *("-o", "Acquire::Languages=none"),
            *("-o", f"APT::Architecture={arch.debian}"),
            *("-o", f"APT::Architectures::={arch.debian}"),
            # Root's apt drops to a user who may not see our folders, and says so each time.
            *("-o", "APT::Sandbox::User=root"),
        ]

    def update(self) -> None:
        """Fetches the signed indexes."""
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        if not KEYRING.exists():
            raise SetupError(f"{KEYRING} is missing; run: python -m tcplab.vm setup")
        (self.home / "debian.sources").write_text(
            f"Types: deb\nURIs: {system_mirror()}\nSuites: {' '.join(self.suites)}\n"
            f"Components: main\nSigned-By: {KEYRING}\n"
        )
        self._run(["apt-get", "-q", "update", "--error-on=any"])

    def packages(self, name_pattern: str) -> list[Package]:
        """All versions of all packages whose whole name matches `name_pattern`."""
        names = self._run(["apt-cache", "pkgnames"]).split()
        matching = [name for name in names if re.fullmatch(name_pattern, name)]
        if not matching:
            return []
        return parse_packages(self._run(["apt-cache", "show", "--all-versions", *matching]))

    def download(self, package: Package, folder: Path) -> Path:
        """Fetches one .deb into `folder`; apt checks it against the signed index."""
        before = set(folder.glob("*.deb"))
        self._run(["apt-get", "-q", "download", f"{package.name}={package.version}"], folder)
        (deb,) = set(folder.glob("*.deb")) - before
        return deb

    def _run(self, command: list[str], folder: Path | None = None) -> str:
        arguments = [command[0], *self._options, *command[1:]]
        answer = subprocess.run(arguments, capture_output=True, text=True, cwd=folder)
        if answer.returncode != 0:
            problem = " ".join(answer.stderr.split())
            raise SetupError(
                f"{shlex.join(command[:4])} failed for {', '.join(self.suites)}: {problem}; "
                "check the network and the mirror in /etc/apt"
            )
        return answer.stdout
