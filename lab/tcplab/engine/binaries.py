"""The folder of flowgen and tcpilot."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def folder(named: Path | None) -> Path:
    """The named one, else this checkout's release builds, else, for an installed tcplab, the place
    of flowgen in PATH."""
    if named:
        return named.resolve()
    if target := os.environ.get("CARGO_TARGET_DIR"):
        return Path(target).resolve() / "release"
    installed = None if (_ROOT / "Cargo.toml").is_file() else shutil.which("flowgen")
    return Path(installed).resolve().parent if installed else _ROOT / "target" / "release"
