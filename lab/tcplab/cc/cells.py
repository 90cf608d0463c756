"""What is compared: algorithms, and conditions of the path."""

from __future__ import annotations

from dataclasses import dataclass

# Ours without prefix, and the kernel's name where it differs.
KERNEL_NAME = {"hstcp": "highspeed"}
BUILT_IN = ("reno", "cubic")
COMPARED = (
    "reno",
    "bic",
    "cubic",
    "hstcp",
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


@dataclass(frozen=True)
class Condition:
    """A path of 40 ms (all of it on the way back) behind a bottleneck."""

    name: str
    seconds: float
    rate_mbit: int = 10
    delay_ms: int = 40
    buffer_packets: int = 50
    loss: bool = False
    mark_packets: int = 0
    """RED marks above so many packets; 0: drop tail."""
    against: str = ""
    """The second flow's congestion control; empty: one flow."""
    fq: bool = False
    """fq on the sender instead of TCP's own pacing."""
    ecn: bool = False


CONDITIONS = (
    Condition("clean", 10),
    Condition("loss", 30, loss=True),
    Condition("bufferbloat", 15, buffer_packets=1000),
    Condition("versus-cubic", 60, buffer_packets=100, against="cubic"),
)
MORE = (
    Condition("clean-fq", 10, fq=True),
    Condition("clean-ecn", 10, mark_packets=20, ecn=True),
    Condition("self", 30, buffer_packets=100, against="same"),
)


def kernel_name(algorithm: str) -> str:
    return KERNEL_NAME.get(algorithm, algorithm)


def module(algorithm: str) -> str | None:
    return None if algorithm in BUILT_IN else f"tcp_{kernel_name(algorithm)}"
