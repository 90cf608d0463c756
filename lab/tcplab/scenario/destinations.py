"""Many destinations: addresses in prefixes, each with a round trip, rate and loss of its own.

The addresses are of the blocks for benchmarks (198.18.0.0/15, RFC 2544) and for documentation
(2001:db8::/32, RFC 3849), not private to any kernel or tuner: a prefix is a /24 or a /48 there.
Private ones are of 10.64.0.0/15.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tcplab.scenario.model import Cell, Flow
from tcplab.scenario.spread import Spread, values

MOST_PREFIXES = 512
"""/24s in 198.18.0.0/15."""
MOST_IN_A_PREFIX = 250


@dataclass(frozen=True)
class Destination:
    """One address, and the properties of its own path; None: as the link."""

    flow: str
    number: int
    """Among all destinations of a cell, from 0."""
    prefix: int
    """Among all prefixes of a cell, from 0."""
    address: str
    rtt_ms: float | None
    rate_mbit: float | None
    loss_percent: float | None

    @property
    def impairment(self) -> tuple[float | None, float | None]:
        """Properties common to all destinations of an emulated path."""
        return self.rtt_ms, self.loss_percent


def destinations(cell: Cell) -> list[Destination]:
    """All destinations of a cell, flow by flow.  Draws depend on the flow alone, so every
    repetition has the same network."""
    found: list[Destination] = []
    prefixes = 0
    for flow in cell.flows:
        if flow.destinations:
            found += _of_flow(flow, len(found), prefixes)
            prefixes += flow.prefixes
    return found


def of_flow(cell: Cell, flow: Flow) -> list[Destination]:
    return [one for one in destinations(cell) if one.flow == flow.name]


def _of_flow(flow: Flow, first: int, first_prefix: int) -> list[Destination]:
    count = flow.destinations or 0
    generator = random.Random(flow.destination_seed)
    inside = [i * flow.prefixes // count for i in range(count)]
    rtts, rates, losses = (
        _each(flow, wanted, inside, generator)
        for wanted in (
            flow.destination_rtt_ms,
            flow.destination_rate_mbit,
            flow.destination_loss_percent,
        )
    )
    return [
        Destination(
            flow=str(flow.name),
            number=first + i,
            prefix=first_prefix + inside[i],
            address=address(flow.ip, first_prefix + inside[i], first + i, flow.private),
            rtt_ms=rtts[i],
            rate_mbit=rates[i],
            loss_percent=losses[i],
        )
        for i in range(count)
    ]


def _each(
    flow: Flow, wanted: Spread | None, inside: Sequence[int], generator: random.Random
) -> Sequence[float | None]:
    """A value for each destination, or one for all of its prefix."""
    if wanted is None:
        return [None] * len(inside)
    if flow.vary == "prefix":
        by_prefix = values(wanted, flow.prefixes, generator)
        return [by_prefix[prefix] for prefix in inside]
    return values(wanted, len(inside), generator)


def address(version: int, prefix: int, number: int, private: bool = False) -> str:
    """The last byte differs between neighbours of a prefix and, mostly, between prefixes, since
    packets are told apart by it first."""
    host = number % MOST_IN_A_PREFIX + 1
    if version == 6:
        return f"2001:db8:{prefix + 1:x}::{host:x}"
    if private:
        return f"10.{64 + prefix // 256}.{prefix % 256}.{host}"
    return f"198.{18 + prefix // 256}.{prefix % 256}.{host}"
