"""Names of congestion controls: which are the kernel's, which tcpilot's own."""

from __future__ import annotations

PREFIX = "tp_"
"""Prefix of the names of tcpilot's own algorithms, as `tcpilot cc load` registers them."""


def is_own(name: object) -> bool:
    """Whether tcpilot brings this algorithm; anything that is no text is none."""
    return isinstance(name, str) and name.startswith(PREFIX)


def without_prefix(name: str) -> str:
    """As `tcpilot cc load` and the papers call it."""
    return name.removeprefix(PREFIX)
