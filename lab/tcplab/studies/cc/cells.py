"""The objects of the comparison: algorithms, and conditions of the path."""

from __future__ import annotations

from dataclasses import dataclass

# Ours without prefix, and the kernel's name if it differs.
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
    loss_per_mille: int = 0
    seed: int = 0
    """Which packets are lost; the same ones in each run with one seed."""
    mark_packets: int = 0
    """RED marks above so many packets on average; 0: drop tail."""
    mark_ms: int = 0
    """Marks every packet that waited longer; 0: none."""
    against: str = ""
    """The other flows' congestion control; empty: one flow; "same": the first one's."""
    rivals: int = 1
    """How many other flows."""
    apart_ms: int = 0
    """Between the starts of two flows."""
    fq: bool = False
    """fq on the sender instead of TCP's own pacing."""
    ecn: bool = False


CONDITIONS = (
    Condition("clean", 10),
    Condition("loss", 20, loss_per_mille=10),
    Condition("bufferbloat", 12, buffer_packets=1000),
    Condition("versus-cubic", 40, buffer_packets=100, against="cubic"),
)
MORE = (
    Condition("clean-fq", 10, fq=True),
    Condition("clean-ecn", 10, mark_packets=20, ecn=True),
    Condition("mark-5ms", 15, mark_ms=5, ecn=True),
    Condition("self", 60, buffer_packets=100, against="same", apart_ms=500),
    Condition("self-4", 60, buffer_packets=100, against="same", rivals=3, apart_ms=500),
    Condition("shallow", 15, buffer_packets=10),
)
# Bounds of figures that depend on chance, and on the rate of loss.
SEEDS = tuple(Condition(f"loss-seed-{n}", 20, loss_per_mille=10, seed=n) for n in range(1, 6))
LATER = tuple(
    Condition(f"versus-cubic-{ms}ms", 40, buffer_packets=100, against="cubic", apart_ms=ms)
    for ms in (10, 30, 70, 130, 210)
)
# How a thousand packets lost at once are repaired depends on microseconds.
DEEP = tuple(
    Condition(f"bufferbloat-{n}", 12, buffer_packets=n) for n in (940, 960, 980, 1020, 1040)
)
SWEEP = tuple(Condition(f"loss-{n / 10:g}%", 10, loss_per_mille=n) for n in (5, 20, 50, 100, 200))
ALL = CONDITIONS + MORE + SEEDS + LATER + DEEP + SWEEP


def kernel_name(algorithm: str) -> str:
    return KERNEL_NAME.get(algorithm, algorithm)


def module(algorithm: str) -> str | None:
    return None if algorithm in BUILT_IN else f"tcp_{kernel_name(algorithm)}"
