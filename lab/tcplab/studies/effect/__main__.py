"""`python -m tcplab.studies.effect DIR…` publishes the cells of these campaigns."""

from __future__ import annotations

from tcplab.studies import cells
from tcplab.studies.effect import records, tables

if __name__ == "__main__":
    raise SystemExit(cells.main("effect", records.of_campaign, tables.renewed))
