"""A job: one cell to run, as JSON, for another process or another host."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

EngineName = Literal["here", "vm"]


@dataclass(frozen=True)
class Settings:
    """How a campaign's cells are run."""

    engine: EngineName
    kernel: str
    """The machine's kernel; `here` runs on the host's."""
    virtual_time: bool
    flowgen: str
    tcpilot: str
    timeout_s: float
    """Wall-clock limit of one cell."""


@dataclass(frozen=True)
class Job:
    """One cell and the folder of its results."""

    id: str
    labels: dict[str, Any]
    repetition: int
    seed: int
    order: int
    cell: dict[str, Any]
    folder: str
    """The campaign's directory."""
    settings: Settings

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def place(self) -> Path:
        """The cell's directory."""
        return Path(self.folder) / "cells" / self.id


def job_from_json(raw: dict[str, Any]) -> Job:
    return Job(**{**raw, "settings": Settings(**raw["settings"])})
