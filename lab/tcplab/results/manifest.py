"""A campaign's directory and its manifest: its origin, and its progress."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tcplab.scenario import Scenario

MANIFEST = "manifest.json"
SCENARIO = "scenario.toml"
LATEST = "latest"
_BUILT = Path(__file__).parents[1] / "commit"
"""Written into a wheel by lab/setup.py."""
_PACKAGES = ("tcplab", "numpy", "pandas", "pyarrow", "dask", "distributed", "rich")


def create(out: Path, name: str, now: datetime) -> Path:
    """A new directory, never an existing one; `latest` names it."""
    out.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{now.strftime('%Y%m%dT%H%M%SZ')}"
    for attempt in range(1, 1000):
        folder = out / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        (folder / "cells").mkdir()
        _link_latest(out, folder)
        return folder
    raise FileExistsError(f"{out}: too many directories named {stem}")


def _link_latest(out: Path, folder: Path) -> None:
    temporary = out / f".{LATEST}-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(folder.name)
    temporary.replace(out / LATEST)


def content(scenario: Scenario, command: list[str], how: dict[str, Any]) -> dict[str, Any]:
    """A new manifest; `how` says engine, kernel and virtual time."""
    commit, dirty = _commit()
    return {
        "format": 1,
        "campaign": scenario.name,
        "title": scenario.top.title,
        "command": command,
        "started": stamp(),
        "finished": None,
        "status": "running",
        "quick": scenario.quick,
        **how,
        "seed": scenario.top.seed,
        "repetitions": scenario.top.repetitions,
        "axes": scenario.axes,
        "scale": scenario.top.scale,
        "reference": scenario.top.reference,
        "commit": commit,
        "dirty": dirty,
        "packages": packages(),
        "host": host(),
        "python": platform.python_version(),
        "scenario": scenario.resolved,
        "scenario_toml": scenario.source,
    }


def stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read(folder: Path) -> dict[str, Any]:
    """Raises FileNotFoundError if there is no campaign."""
    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return found


def write(folder: Path, manifest: dict[str, Any]) -> None:
    """Replaces the manifest atomically; a reader never sees half a file."""
    temporary = folder / f".{MANIFEST}"
    temporary.write_text(json.dumps(manifest, indent=1) + "\n")
    temporary.replace(folder / MANIFEST)


def packages() -> dict[str, str]:
    """Versions of the programs behind results."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def host() -> dict[str, Any]:
    cpu = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return {"kernel": platform.release(), "cpu": cpu, "cores": len(os.sched_getaffinity(0))}


def _commit() -> tuple[str | None, bool]:
    """The commit of this checkout, or of the wheel when it was built, and whether files differed
    from it; None if that is unknown.  An installed tcplab may lie in somebody's repository without
    belonging to it."""
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is not None:
        text = _git("describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*") or ""
    else:
        text = _BUILT.read_text().strip() if _BUILT.is_file() else ""
    return text.rstrip("+") or None, text.endswith("+")


def _git(*arguments: str) -> str | None:
    """git's answer about this file's folder; None if it fails."""
    try:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def reproduce() -> list[str]:
    """The command line of this process, as one would type it."""
    return ["tcplab", *sys.argv[1:]]
