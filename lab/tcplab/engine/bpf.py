"""Compiles the engine's own BPF programs, once for each form of their source."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tcplab.engine.errors import EngineError
from tcplab.vm.cache import cache_dir, sha256_of


def compiled(source: Path, wanted_by: str, options: Sequence[str] = (), form: str = "") -> Path:
    """The object file; `form` distinguishes those of one source with different options.

    Raises EngineError.
    """
    name = source.name.removesuffix(".bpf.c")
    made = cache_dir() / f"{name}{form}-{sha256_of(source)[:16]}.bpf.o"
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    new = made.with_suffix(".new")
    include = f"/usr/include/{platform.machine()}-linux-gnu"
    command = ["clang", "-g", "-O2", "-target", "bpf", "-I", include, *options]
    try:
        done = subprocess.run(
            [*command, "-c", str(source), "-o", str(new)], capture_output=True, text=True
        )
    except FileNotFoundError as missing:
        raise EngineError(f"{wanted_by} needs clang; run: apt-get install clang") from missing
    if done.returncode:
        raise EngineError(f"{source.name}: {done.stderr.strip().splitlines()[0]}")
    new.rename(made)
    return made
