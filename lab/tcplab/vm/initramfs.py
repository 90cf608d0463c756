"""Builds the initramfs that starts a machine: busybox, a few modules, two scripts.

It is built for every run (a few megabytes, some tens of milliseconds).  So the command, the
environment and the mounts travel inside it and need no quoting on the kernel's command line.
`machine.py` is its only caller.
"""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tcplab.vm.errors import SetupError

_DIRECTORY_MODE = 0o040755
_EXECUTABLE_MODE = 0o100755
_SIGNATURE_MAGIC = b"~Module signature appended~\n"
_SIGNATURE_INFO_BYTES = 12

# The guest needs these before its root is there: 9p over virtio, the overlay above it, and the
# ports for the command's output.  A kernel with a built-in one skips it.
BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")


@dataclass
class Cpio:
    """An archive in the kernel's "newc" format (Documentation/driver-api/early-userspace)."""

    _parts: list[bytes] = field(default_factory=list)
    _directories: set[str] = field(default_factory=set)
    _inode: int = 0

    def add(self, path: str, body: bytes) -> None:
        """Adds an executable file, and the directories above it."""
        self._add_parents(path)
        self._entry(path, _EXECUTABLE_MODE, body)

    def add_directory(self, path: str) -> None:
        self._add_parents(path)
        if path not in self._directories:
            self._directories.add(path)
            self._entry(path, _DIRECTORY_MODE, b"")

    def finish(self) -> bytes:
        """Returns the whole archive; nothing may be added afterwards."""
        self._entry("TRAILER!!!", 0, b"")
        return b"".join(self._parts)

    def _add_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            self.add_directory(parent)

    def _entry(self, path: str, mode: int, body: bytes) -> None:
        self._inode += 1
        name = path.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % value for value in fields)
        self._parts += [_padded(header + name), _padded(body)]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def module_files(modules_base: Path, release: str, names: tuple[str, ...]) -> list[Path]:
    """Files to insmod for `names`, dependencies first; a built-in module has none."""
    show_depends = ["modprobe", "--show-depends", "-C", "/dev/null"]
    show_depends += ["-d", str(modules_base), "-S", release]
    files: list[Path] = []
    for name in names:
        answer = subprocess.run(
            [*show_depends, name],
            capture_output=True,
            text=True,
        )
        if answer.returncode != 0:
            raise SetupError(
                f"kernel {release} has no module {name} in {modules_base}: "
                f"{answer.stderr.strip()}; fetch the kernel again"
            )
        found = re.findall(r"^insmod (\S+)", answer.stdout, re.MULTILINE)
        files += [Path(path) for path in found if Path(path) not in files]
    return files


def module_body(path: Path) -> bytes:
    """A module's ELF image, uncompressed and without its signature.

    Both cost an emulated guest: checking one signature takes 200 million instructions.
    The files come from the cache, whose packages were verified.
    """
    body = path.read_bytes()
    if path.suffix == ".xz":
        body = lzma.decompress(body)
    if not body.endswith(_SIGNATURE_MAGIC):
        return body
    # struct module_signature ends with the big-endian length of the signature before it.
    info_start = len(body) - len(_SIGNATURE_MAGIC) - _SIGNATURE_INFO_BYTES
    (length,) = struct.unpack_from(">I", body, info_start + _SIGNATURE_INFO_BYTES - 4)
    return body[: info_start - length]


def shared_libraries(ldd_output: str) -> list[Path]:
    """The files `ldd` names, the loader included."""
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", ldd_output)]


def build(busybox: Path, modules: list[Path], files: dict[str, bytes]) -> bytes:
    """An initramfs with `busybox`, `modules` in loading order, and `files` under /tcplab."""
    cpio = Cpio()
    for directory in ("proc", "sys", "dev", "lower", "upper", "newroot"):
        cpio.add_directory(directory)
    cpio.add("bin/busybox", busybox.read_bytes())
    loader = ""
    for library in _libraries_of(busybox):
        body = library.read_bytes()
        cpio.add(str(library).lstrip("/"), body)
        cpio.add(f"tcplab/lib/{library.name}", body)
        loader = library.name if library.name.startswith("ld-") else loader
    cpio.add("tcplab/busybox", busybox.read_bytes())
    cpio.add("tcplab/loader", loader.encode())
    for order, module in enumerate(modules):
        cpio.add(f"modules/{order:02}-{module.name.split('.')[0]}.ko", module_body(module))
    for name, body in files.items():
        cpio.add(f"tcplab/{name}", body)
    cpio.add("init", (Path(__file__).parent / "guest" / "init.sh").read_bytes())
    return cpio.finish()


def find_busybox() -> Path:
    found = shutil.which("busybox")
    if not found:
        raise SetupError("busybox is not installed; run: python -m tcplab.vm setup")
    return Path(found).resolve()


def _libraries_of(program: Path) -> list[Path]:
    # ldd fails on a static program; it needs no libraries.
    answer = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
    return shared_libraries(answer.stdout) if answer.returncode == 0 else []
