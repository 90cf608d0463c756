"""Delay, jitter, losses and reordering, as netem makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tcplab.scenario.destinations import Destination, destinations
from tcplab.scenario.model import Cell, Link, before_ms, behind_ms
from tcplab.topology.many import classes, classifier, shaped
from tcplab.topology.places import (
    NETEM_HANDLE,
    far_device,
    is_direct,
    last_router,
    rtts_ms,
    sender_router,
)
from tcplab.topology.relay import is_relayed

NETEM_LIMIT = 100_000
"""Packets; netem drops packets beyond it, so it must never be reached."""
_LIMIT = f"limit {NETEM_LIMIT} "
MANY_ROOT = "2:"
"""Handle of the root qdisc, above the destinations' own netem."""


@dataclass(frozen=True)
class Netem:
    """One netem: its place, and its arguments, possibly none."""

    namespace: str
    device: str
    where: str
    handle: int
    options: str
    arguments: str

    def line(self, verb: str) -> str:
        """tc's arguments; without arguments of its own it delays by nothing."""
        what = self.arguments or "delay 0ms"
        return (
            f"qdisc {verb} dev {self.device} {self.where} handle {self.handle:x}: "
            f"netem {self.options}{what}"
        )


def netems(cell: Cell, link: int) -> list[Netem]:
    """Every netem of a link, the same ones whatever changes under way."""
    if is_relayed(cell):
        return []
    one = cell.links[link]
    if is_direct(one):
        # Its default limit, 1000 packets.
        return [Netem("left", f"l{link}", "root", NETEM_HANDLE, "", arguments(one, 0))]
    many = destinations(cell) if link == 0 else []
    last, found = last_router(one), []
    for k, extra_ms in enumerate(rtts_ms(cell)):
        where = f"parent {MANY_ROOT}1" if many and k == 0 else "root"
        device, words = far_device(link, k), arguments(one, extra_ms)
        found.append(Netem(last, device, where, NETEM_HANDLE, _LIMIT, words))
    for minor, alike in enumerate(_alike(many), 2):
        where, words = f"parent {MANY_ROOT}{minor:x}", arguments(shaped(one, alike), 0)
        handle = NETEM_HANDLE + minor
        found.append(Netem(last, far_device(link, 0), where, handle, _LIMIT, words))
    namespace, device = sender_router(link)
    back = back_arguments(one)
    return [*found, Netem(namespace, device, "root", NETEM_HANDLE, _LIMIT, back)]


def _classified(cell: Cell) -> list[Destination]:
    """Destinations with a class each; neither the relay nor a direct path needs these."""
    if is_relayed(cell) or is_direct(cell.links[0]):
        return []
    return destinations(cell)


def _alike(many: list[Destination]) -> list[Destination]:
    """One destination for each impairment, in order."""
    first: dict[tuple[float | None, float | None], Destination] = {}
    for one in many:
        first.setdefault(one.impairment, one)
    return list(first.values())


def netem_lines(cell: Cell, link: int) -> dict[str, list[str]]:
    """The lines to make them, by namespace."""
    lines: dict[str, list[str]] = {}
    many = _classified(cell) if link == 0 else []
    if many:
        device = far_device(link, 0)
        minors = {one.impairment: minor for minor, one in enumerate(_alike(many), 2)}
        lines[last_router(cell.links[link])] = [
            *classes(device, MANY_ROOT),
            *(_class(device, minor) for minor in minors.values()),
            *classifier(device, MANY_ROOT, [(one, minors[one.impairment]) for one in many]),
        ]
    for netem in netems(cell, link):
        if netem.arguments:
            lines.setdefault(netem.namespace, []).append(netem.line("add"))
    return lines


def _class(device: str, minor: int) -> str:
    return classes(device, MANY_ROOT)[1].replace(f"{MANY_ROOT}1 htb", f"{MANY_ROOT}{minor:x} htb")


def removals(cell: Cell, link: int) -> list[tuple[str, str]]:
    """Namespace and device of each root from `netem_lines`."""
    roots = {
        (netem.namespace, netem.device)
        for netem in netems(cell, link)
        if netem.arguments and netem.where == "root"
    }
    if link == 0 and _classified(cell):
        roots.add((last_router(cell.links[0]), far_device(0, 0)))
    return sorted(roots)


def arguments(link: Link, extra_ms: float) -> str:
    """netem's arguments for the way to the right; empty if there is nothing to emulate."""
    words: list[str] = []
    delay_ms = behind_ms(link) + extra_ms
    if delay_ms:
        jitter = f" {link.jitter_ms:g}ms" if link.jitter_ms else ""
        words.append(f"delay {delay_ms:g}ms{jitter}")
    if link.loss_percent:
        words.append(_loss(link))
    if link.reorder_percent:
        words.append(f"reorder {link.reorder_percent:g}%")
    return " ".join(words)


def back_arguments(link: Link) -> str:
    """The same for the way back."""
    lossy = replace(link, loss_percent=link.back_loss_percent, loss_burst_packets=1.0)
    words = [f"delay {before_ms(link):g}ms"] if before_ms(link) else []
    if link.back_loss_percent:
        words.append(_loss(lossy))
    if link.back_slot_ms:
        words.append(f"slot {link.back_slot_ms:g}ms")
    return " ".join(words)


def _loss(link: Link) -> str:
    if link.loss_burst_packets <= 1 or link.loss_percent >= 100:
        return f"loss random {link.loss_percent:g}%"
    # Gilbert's model: all is lost in the bad state.  It is left with probability r per packet, so
    # bursts have mean 1/r, and entered with p; p/(p+r) is the loss.
    share = link.loss_percent / 100
    leave = 1 / link.loss_burst_packets
    enter = leave * share / (1 - share)
    return f"loss gemodel {100 * enter:.6g}% {100 * leave:.6g}% 100% 0%"
