"""Devices, addresses and routes as arguments of `ip -batch`: pure functions of a cell."""

from __future__ import annotations

from tcplab.scenario.model import Cell
from tcplab.topology.places import (
    answers_way,
    far_device,
    is_direct,
    last_router,
    namespaces,
    network,
    owner,
    receiver_address,
    receiver_device,
    rtts_ms,
    sender_address,
    versions,
)
from tcplab.topology.relay import is_relayed

_MANY = {4: "198.18.0.0/15", 6: "2001:db8::/32"}
"""The network of all destinations of a cell, but for private ones."""
_PRIVATE = "10.64.0.0/15"
_LENGTHS = {4: (24, 16), 6: (64, 32)}
"""Prefix lengths of a network, and of all networks of a link."""


def ip_lines(cell: Cell) -> dict[str, list[str]]:
    """Arguments of `ip -batch` by namespace; `""` is the outer one, the first."""
    lines: dict[str, list[str]] = {"": []}
    lines |= {name: ["link set lo up"] for name in namespaces(cell)}
    for i, link in enumerate(cell.links):
        if is_direct(link):
            _direct(cell, i, lines)
        else:
            _routed(cell, i, lines)
    for version, private in sorted({(f.ip, f.private) for f in cell.flows if f.destinations}):
        _many(cell, version, _PRIVATE if private else _MANY[version], lines)
    return lines


def _direct(cell: Cell, i: int, lines: dict[str, list[str]]) -> None:
    left, right = f"l{i}", receiver_device(i, 0)
    if not is_relayed(cell):
        lines[""].append(f"link add {left} netns left type veth peer name {right} netns right")
    lines["left"] += _device(cell, left, _hosts(cell, i, 1, 1))
    lines["right"] += _device(cell, right, _hosts(cell, i, 10, 2))
    for version in versions(cell):
        everything = _everything(i, version)
        lines["left"].append(f"route add {everything} dev {left}")
        lines["right"].append(f"route add {everything} dev {right}")


def _routed(cell: Cell, i: int, lines: dict[str, list[str]]) -> None:
    outer, link = lines[""], cell.links[i]
    outer.append(f"link add l{i} netns left type veth peer name m{i} netns r1")
    if not link.trace and not link.shares:  # pathrelay makes a traced link's pair
        outer.append(f"link add b{i} netns r1 type veth peer name n{i} netns r2")
    lines["left"] += _device(cell, f"l{i}", _hosts(cell, i, 1, 1), single=not link.sender_gso)
    lines["r1"] += _device(cell, f"m{i}", _hosts(cell, i, 1, 2))
    if not link.shares:
        lines["r1"] += _device(cell, f"b{i}", _hosts(cell, i, 2, 1))
        lines["r2"] += _device(cell, f"n{i}", _hosts(cell, i, 2, 2))
    if link.before_share and is_relayed(cell):
        router, sender = answers_way(i)
        lines["r1"] += _device(cell, router, _hosts(cell, i, 4, 1))
        lines["left"] += _device(cell, sender, _hosts(cell, i, 4, 2))
    last = last_router(link)
    if link.second_rate_mbit:
        outer.append(f"link add c{i} netns r2 type veth peer name d{i} netns r3")
        lines["r2"] += _device(cell, f"c{i}", _hosts(cell, i, 3, 1))
        lines["r3"] += _device(cell, f"d{i}", _hosts(cell, i, 3, 2))
    for k in range(len(rtts_ms(cell))):
        far, near = far_device(i, k), receiver_device(i, k)
        if not is_relayed(cell):
            outer.append(f"link add {far} netns {last} type veth peer name {near} netns right")
        lines[last] += _device(cell, far, _hosts(cell, i, 10 + k, 1))
        lines["right"] += _device(cell, near, _hosts(cell, i, 10 + k, 2), single=True)
    for version in versions(cell):
        _routes(cell, i, version, lines)


def _routes(cell: Cell, i: int, version: int, lines: dict[str, list[str]]) -> None:
    """The networks beyond a neighbour: of the link to the right, of the sender to the left."""
    everything, near = _everything(i, version), _sender_network(i, version)

    def host(which: int, number: int) -> str:
        return f"{network(i, which, version)}{number}"

    lines["left"].append(f"route add {everything} via {host(1, 2)}")
    between = network(owner(cell, i), 2, version)
    lines["r1"].append(f"route add {everything} via {between}2")
    lines["r2"].append(f"route add {near} via {between}1")
    if cell.links[i].before_share and is_relayed(cell):
        answers_to = sender_address(i, version)
        lines["r1"].append(f"route add {answers_to} dev {answers_way(i)[0]}")
    if cell.links[i].second_rate_mbit:
        lines["r2"].append(f"route add {everything} via {host(3, 2)}")
        lines["r3"].append(f"route add {near} via {host(3, 1)}")
    lines["right"].append(f"route add {near} via {host(10, 1)}")


def _many(cell: Cell, version: int, all_of_them: str, lines: dict[str, list[str]]) -> None:
    """Routes to all destinations, over the first link; the receiver has every one of them."""
    lines["right"].append(f"route add local {all_of_them} dev lo")
    if is_direct(cell.links[0]):
        lines["left"].append(f"route add {all_of_them} via {receiver_address(0, 0, version)}")
        return

    def host(which: int) -> str:
        return f"{network(0, which, version)}2"

    hops = {"left": 1, "r1": 2, "r2": 3} if cell.links[0].second_rate_mbit else {"left": 1, "r1": 2}
    for namespace, which in hops.items():
        lines[namespace].append(f"route add {all_of_them} via {host(which)}")
    last = last_router(cell.links[0])
    lines[last].append(f"route add {all_of_them} via {host(10)}")


def _everything(link: int, version: int) -> str:
    length = _LENGTHS[version][1]
    return f"10.{link + 1}.0.0/{length}" if version == 4 else f"fd00:{link + 1:x}::/{length}"


def _sender_network(link: int, version: int) -> str:
    return f"{network(link, 1, version)}{0 if version == 4 else ''}/{_LENGTHS[version][0]}"


def _hosts(cell: Cell, link: int, which: int, number: int) -> list[str]:
    """A device's addresses with their lengths."""
    return [
        f"{network(link, which, version)}{number}/{_LENGTHS[version][0]}"
        for version in versions(cell)
    ]


def _device(cell: Cell, name: str, addresses: list[str], single: bool = False) -> list[str]:
    segments = [f"link set {name} gso_max_segs 1"] if single else []
    given = [f"address add {a} dev {name}{' nodad' if ':' in a else ''}" for a in addresses]
    return [*segments, f"link set {name} up", *given]


def mptcp_lines(cell: Cell) -> dict[str, list[str]]:
    """Arguments of `ip mptcp` by namespace: the right announces its address on every other link,
    and the left opens a subflow to it, from its own address there, because of the route."""
    if not any(flow.transport == "mptcp" for flow in cell.flows):
        return {}
    links = range(1, len(cell.links))
    limits = f"limits set subflow {len(cell.links)} add_addr_accepted {len(cell.links)}"
    announced = [f"endpoint add {receiver_address(i, 0)} dev r{i}x0 signal" for i in links]
    return {"left": [limits], "right": [limits, *announced]}


def sender_addresses(cell: Cell) -> dict[str, str]:
    """Links by the sender's address on them."""
    found: dict[str, str] = {}
    for i, link in enumerate(cell.links):
        for version in versions(cell):
            found[sender_address(i, version)] = link.name
    return found
