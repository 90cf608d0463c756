"""A campaign as one self-contained HTML page for use offline."""

from tcplab.report.page import write

__all__ = ["write"]
