"""Traces of a link's rate, in the format of mahimahi: each line is a millisecond at which one
packet of 1500 bytes may pass, and the last line is also the period of the trace.

The published traces of cellular networks have this format.  The laboratory's own are made here, and
are not measured: the rate wanders as a Brownian motion, as Sprout models a cellular link (Winstein
et al., NSDI 2013), and now and then nothing passes for a while.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tcplab.scenario.fields import suggestion

PACKET_BITS = 1500 * 8


@dataclass(frozen=True)
class Recipe:
    """How a trace is made."""

    seconds: int
    mean_mbit: float
    wander: float
    """Standard deviation of the rate's logarithm, over time."""
    memory_s: float
    """Half-life of the rate's memory of its former value."""
    outages_per_minute: float
    outage_s: float
    """Mean length."""
    seed: int


RECIPES = {
    "lte-still": Recipe(20, 8.0, 0.35, 4.0, 0.0, 0.0, 1),
    "lte-walk": Recipe(20, 6.0, 0.7, 2.0, 3.0, 0.3, 2),
    "lte-drive": Recipe(20, 5.0, 1.0, 1.0, 9.0, 0.6, 3),
}


def make(recipe: Recipe) -> list[int]:
    """The milliseconds at which a packet may pass."""
    generator = random.Random(recipe.seed)
    step_s = 0.02
    keep = 0.5 ** (step_s / recipe.memory_s)
    # This makes the mean of the log-normal rate the requested mean.
    middle = math.log(recipe.mean_mbit) - recipe.wander**2 / 2
    state, silent_s, credit = 0.0, 0.0, 0.0
    found: list[int] = []
    for step in range(round(recipe.seconds / step_s)):
        noise = generator.gauss(0.0, recipe.wander) if recipe.wander else 0.0
        state = keep * state + math.sqrt(1 - keep**2) * noise
        if silent_s <= 0 and generator.random() < recipe.outages_per_minute * step_s / 60:
            silent_s = generator.expovariate(1 / recipe.outage_s)
        silent_s -= step_s
        for ms in range(round(step * step_s * 1000), round((step + 1) * step_s * 1000)):
            credit += 0.0 if silent_s > 0 else math.exp(middle + state) * 1000 / PACKET_BITS
            found += [ms] * int(credit)
            credit -= int(credit)
    return [*found, recipe.seconds * 1000]


def names() -> list[str]:
    return sorted(RECIPES)


def text(name: str) -> str:
    """One of the laboratory's traces, or a file.  Raises ValueError, with the mistake."""
    place = files("tcplab.scenario").joinpath("traces", f"{name}.trace")
    if name in RECIPES:
        return place.read_text(encoding="ascii")
    try:
        found = Path(name).read_text(encoding="ascii")
        times = [int(line) for line in found.splitlines()]
    except OSError:
        told = f"{name!r} is no file, and no trace of the laboratory"
        raise ValueError(told + suggestion(name, names())) from None
    except ValueError as problem:
        raise ValueError(f"{name!r} is no trace: {problem}") from None
    if not times or times[-1] <= 0 or times != sorted(times):
        raise ValueError(f"{name!r} is no trace: times rise, and the last is above 0")
    return found


def mean_mbit(trace: str) -> float:
    """The packets of one turn of the trace, over its length."""
    times = trace.split()
    return len(times) * PACKET_BITS / (int(times[-1]) * 1000)
