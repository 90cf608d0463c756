"""A campaign as one self-contained HTML page that works offline."""

from tcplab.report.page import write

__all__ = ["write"]
