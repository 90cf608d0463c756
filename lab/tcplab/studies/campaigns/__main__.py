"""`python -m tcplab.studies.campaigns DIR…` publishes the cells of these campaigns."""

from __future__ import annotations

from tcplab.studies import cells
from tcplab.studies.campaigns import records, tables

if __name__ == "__main__":
    raise SystemExit(cells.main("campaigns", records.of_campaign, tables.renewed))
