"""Names of congestion controls: the kernel's and tcpilot's own."""

from __future__ import annotations

PREFIX = "tp_"
"""Prefix of the names of tcpilot's own algorithms, as `tcpilot cc load` registers them."""


OWN_NAMES = {"highspeed": "hstcp"}
"""tcpilot's names of the kernel's algorithms, if they differ."""
IN_KERNELS = (
    "reno",
    "bic",
    "cubic",
    "highspeed",
    "htcp",
    "hybla",
    "westwood",
    "vegas",
    "veno",
    "illinois",
    "yeah",
    "dctcp",
    "bbr",
)
"""The kernel's names of algorithms in tcpilot's catalogue."""
NEED_ECN = ("dctcp", "tp_dctcp", "tp_prague")
"""They leave a connection without negotiated ECN to reno. Their SYN is sent as capable of ECN, and
Linux grants no classic ECN to such a SYN unless the listener's algorithm needs ECN, too."""


def stand_in(name: str) -> str | None:
    """tcpilot's algorithm from the same paper as the kernel's `name`; None if it has none."""
    if name not in IN_KERNELS:
        return None
    return PREFIX + OWN_NAMES.get(name, name)


def is_own(name: object) -> bool:
    """Whether tcpilot brings this algorithm; only text can name one."""
    return isinstance(name, str) and name.startswith(PREFIX)


def without_prefix(name: str) -> str:
    """As `tcpilot cc load` and the papers call it."""
    return name.removeprefix(PREFIX)
