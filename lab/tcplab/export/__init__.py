"""Export of cells to the formats of other tools."""

from tcplab.export.flent import write_flent

__all__ = ["write_flent"]
