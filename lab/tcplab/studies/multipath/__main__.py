"""`python -m tcplab.studies.multipath DIR…` publishes the cells of these campaigns."""

from __future__ import annotations

from tcplab.studies import cells
from tcplab.studies.multipath import records, tables

if __name__ == "__main__":
    raise SystemExit(cells.main("multipath", records.of_campaign, tables.renewed))
