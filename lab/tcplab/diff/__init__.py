"""Two campaigns, point by point."""

from tcplab.diff.compare import Diff, Row, compare

__all__ = ["Diff", "Row", "compare"]
