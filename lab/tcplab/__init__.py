"""The laboratory of tcpilot: scenarios, machines, metrics and reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcplab.notebook import Frames

__all__ = ["load"]


def load(folder: Path | str) -> Frames:
    """A campaign's cells, flows and samples as pandas tables: see tcplab.notebook."""
    # pandas takes a second to import, and most commands do not need it.
    from tcplab import notebook

    return notebook.load(folder)
