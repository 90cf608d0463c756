"""The cache of kernels and roots: its folder, how entries appear in it, how they are locked.

An entry is a folder with a manifest.  It is built under a temporary name and renamed when complete,
so nobody finds a half-finished entry.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """$TCPILOT_CACHE, else $XDG_CACHE_HOME/tcpilot, else ~/.cache/tcpilot."""
    if own := environment.get("TCPILOT_CACHE"):
        return Path(own).absolute()
    if common := environment.get("XDG_CACHE_HOME"):
        return Path(common).absolute() / "tcpilot"
    return Path(environment.get("HOME") or Path.home()) / ".cache" / "tcpilot"


def say(message: str) -> None:
    """Progress, for the person who waits; results go to stdout."""
    print(f"tcplab: {message}", file=sys.stderr, flush=True)


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def listing_sha256(folder: Path) -> str:
    """A hash over the names and sizes of all files below `folder`.

    Finds missing and cut files among thousands without reading them.
    """
    start = len(str(folder))
    lines = sorted(f"{entry.path[start:]} {size}" for entry, size in _files(folder))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def tree_bytes(folder: Path) -> int:
    """The size in bytes of all files below `folder`."""
    return sum(size for _, size in _files(folder))


def _files(folder: Path | str) -> Iterator[tuple[os.DirEntry[str], int]]:
    """Everything except folders below `folder`, with its size; pathlib is six times slower."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry, entry.stat(follow_symlinks=False).st_size


@contextlib.contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    """Holds `directory`/`name`.lock; a second process waits here, and says so."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that prepares {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def new_entry(target: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `target` if the block ends well, else it is deleted.

    The caller holds the lock of the entry.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for stale in target.parent.glob(f".{target.name}.new-*"):
        shutil.rmtree(stale)  # Left by a killed process: we hold its lock now.
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
    try:
        folder.chmod(0o755)
        yield folder
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
