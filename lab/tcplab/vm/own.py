"""A kernel of one's own: a bzImage, or an ELF vmlinux, with the folder of its modules.

    IMAGE[:FOLDER]

`make modules_install INSTALL_MOD_PATH=FOLDER` fills FOLDER.  Without it the folders above the image
are tried, the nearest first; the last of them is /, with this host's modules.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tcplab.vm import vmlinux
from tcplab.vm.cache import cache_dir, locked, new_entry, sha256_of
from tcplab.vm.errors import SetupError

_VERSION_OFFSET = 0x20E
"""kernel_version of Documentation/arch/x86/boot.rst: the place of the text, from 0x200."""
_BANNER = re.compile(rb"Linux version (\S+) ")
_NEEDED = ("modules.dep", "modules.builtin")


def is_path(kernel: str) -> bool:
    """Whether this names a file and not an entry of kernels.toml."""
    return "/" in kernel


def absolute(kernel: str) -> str:
    """The same, wherever it is read; names of kernels.toml stay."""
    if not is_path(kernel):
        return kernel
    image, folder = _parts(kernel)
    return f"{image.absolute()}:{folder.absolute()}" if folder else str(image.absolute())


def prepare(kernel: str) -> tuple[str, str, Path]:
    """Its release, the image's SHA-256, and a folder of the cache with `vmlinux` and `root`, as a
    kernel of Debian's has.

    Raises SetupError if the image or its modules are not usable.
    """
    image, given = _parts(kernel)
    if not image.is_file():
        raise SetupError(f"{image}: there is no such kernel image")
    content = image.read_bytes()
    release = release_of(content, image)
    root = _modules_root(image, given, release)
    digest = sha256_of(image)
    place = cache_dir() / "own" / digest[:16]
    with locked(cache_dir() / "own", digest[:16]):
        if not (place / "vmlinux").is_file():
            elf = content if vmlinux.is_elf(content) else vmlinux.extract(content)
            with new_entry(place) as new:
                (new / "vmlinux").write_bytes(elf)
        # The modules may be elsewhere than they were the last time.
        link = place / "root.new"
        link.unlink(missing_ok=True)
        link.symlink_to(root)
        link.replace(place / "root")
    return release, digest, place


def release_of(image: bytes, path: Path) -> str:
    """The future output of `uname -r`."""
    if vmlinux.is_elf(image):
        found = _BANNER.search(image)
        if not found:
            raise SetupError(f"{path}: no kernel's version is in this ELF file")
        return found[1].decode()
    if not vmlinux.is_bzimage(image):
        raise SetupError(f"{path} is neither an x86 bzImage nor an ELF vmlinux")
    (offset,) = struct.unpack_from("<H", image, _VERSION_OFFSET)
    text = image[0x200 + offset :].partition(b"\0")[0]
    return text.split(b" ")[0].decode()


def _parts(kernel: str) -> tuple[Path, Path | None]:
    image, colon, folder = kernel.rpartition(":")
    return (Path(image), Path(folder)) if colon else (Path(kernel), None)


def _modules_root(image: Path, given: Path | None, release: str) -> Path:
    """The folder whose lib/modules has this release."""
    below = Path("lib/modules") / release
    tried = [given] if given else list(image.resolve().parents)
    for folder in tried:
        if not (folder / below).is_dir():
            continue
        for name in _NEEDED:
            if not (folder / below / name).is_file():
                raise SetupError(
                    f"{folder / below} has no {name}; run: depmod -b {folder} {release}"
                )
        return folder.resolve()
    where = given or f"the folders above {image}"
    raise SetupError(
        f"{below} is not in {where}; run make modules_install INSTALL_MOD_PATH=DIR in the kernel's "
        f"tree, then give {image}:DIR"
    )
