"""`python -m tcplab.studies.l4s DIR…` publishes the cells of these campaigns."""

from __future__ import annotations

from tcplab.studies import cells
from tcplab.studies.l4s import records, tables

if __name__ == "__main__":
    raise SystemExit(cells.main("l4s", records.of_campaign, tables.renewed))
