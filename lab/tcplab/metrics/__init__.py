"""Metrics: pure functions over result directories.  docs/use/laboratory-metrics.md defines each."""

from tcplab.metrics.cell import cell_metrics, write_cell
from tcplab.metrics.summary import summarise, write_summary

__all__ = ["cell_metrics", "summarise", "write_cell", "write_summary"]
