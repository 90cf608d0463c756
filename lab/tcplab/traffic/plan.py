"""A cell's flows as flowgen's plan (lab/flowgen/src/play/plan.rs): a pure function of the cell
and its seed."""

from __future__ import annotations

import random
from typing import Any

from tcplab import topology
from tcplab.algorithms import NEED_ECN
from tcplab.scenario.destinations import of_flow
from tcplab.scenario.model import SYSTEM, Cell, Flow
from tcplab.scenario.spread import wholes

PORT = 5201
SHORT_ANSWER_BYTES = 128
WEB_PORT = 8080
NETNS = "/run/netns"


def plan(cell: Cell, seed: int) -> dict[str, Any]:
    """The whole measured time, as input of flowgen."""
    generator = random.Random(seed)
    queues = [
        {"link": name, "netns": f"{NETNS}/{namespace}", "device": device, "handle": handle}
        for name, namespace, device, handle in topology.queue_places(cell)
    ]
    changes = [
        {"at_s": at_s, "netns": netns, "tc": line}
        for at_s, netns, line in topology.change_lines(cell)
    ]
    serve = {
        "netns": f"{NETNS}/right",
        "listen": topology.with_port("::" if 6 in topology.versions(cell) else "0.0.0.0", PORT),
        "short_bytes": SHORT_ANSWER_BYTES,
        "mptcp": any(flow.transport == "mptcp" for flow in cell.flows),
        "quic_paths": _quic_paths(cell, "up"),
        "cc": _receivers_cc(cell),
    }
    # Data also comes down; downloads have one path.
    back = {
        **serve,
        "netns": f"{NETNS}/left",
        "mptcp": False,
        "quic_paths": _quic_paths(cell, "down"),
    }
    web = {"netns": f"{NETNS}/left", "port": WEB_PORT}
    connections = [flow for flow in cell.present() if not flow.is_datagrams]
    datagrams = [flow for flow in cell.present() if flow.is_datagrams]
    return {
        "duration_s": cell.duration_s,
        "sample_ms": cell.sample_ms,
        "drain_s": cell.drain_s,
        "flows": [_group(cell, flow, generator) for flow in connections],
        "probes": [_probe(cell, flow, i) for i, flow in enumerate(datagrams)],
        "serve": serve,
        "foreign": [web] if any(flow.is_web for flow in connections) else [],
        "serve_too": [back] if any(flow.direction == "down" for flow in connections) else [],
        "queues": queues,
        "changes": changes,
        "links": topology.sender_addresses(cell),
    }


def _receivers_cc(cell: Cell) -> str | None:
    """An algorithm of the flows with a need for ECN, if any: its receiver negotiates ECN too."""
    if cell.ecn == "0":
        return None
    return next((f.cc for f in cell.present() if f.cc in NEED_ECN), None)


def _group(cell: Cell, flow: Flow, generator: random.Random) -> dict[str, Any]:
    end_s = flow.start_s + flow.duration_s if flow.duration_s else cell.duration_s
    visited = visits(cell, flow, generator)
    return {
        "name": flow.name,
        "to": topology.with_port(_to(cell, flow), WEB_PORT if flow.is_web else PORT),
        "netns": f"{NETNS}/right" if _asks_from_right(flow) else None,
        "bind": topology.destination(cell, flow) if flow.is_web else None,
        "fetch": flow.is_web,
        "source": _source(flow),
        "destinations": [topology.with_port(address, PORT) for address in visited],
        "at_s": arrivals_s(flow, len(visited), generator),
        "cc": None if flow.cc == SYSTEM else flow.cc,
        "fq_paced": flow.fq_paced,
        "transport": flow.transport,
        "no_spin": not flow.spin,
        "paths": _paths(cell, flow),
        "start_s": flow.start_s,
        "end_s": end_s,
        "streams": flow.streams,
        "stagger_s": flow.stagger_s,
        "gap_ms": flow.gap_ms,
        "connections": _connections(flow, len(visited)),
        "warmup": flow.warmup,
        "sample": flow.sample and flow.kind != "short",
        "work": _work(flow, len(visited), generator),
    }


def _asks_from_right(flow: Flow) -> bool:
    """Its connections are opened by the right host."""
    return flow.direction == "down" or flow.is_web


def _to(cell: Cell, flow: Flow) -> str:
    if _asks_from_right(flow):
        return topology.sender_address(0, flow.ip)
    return topology.destination(cell, flow)


def _source(flow: Flow) -> dict[str, Any] | None:
    if flow.source_rate_mbit is None and flow.on_s is None:
        return None
    return {"rate_mbit": flow.source_rate_mbit, "on_s": flow.on_s, "off_s": flow.off_s}


def _probe(cell: Cell, flow: Flow, number: int) -> dict[str, Any]:
    """Datagrams, each flow's to a port of its own."""
    ends = ("left", "right") if flow.direction == "up" else ("right", "left")
    return {
        "name": flow.name,
        "netns": f"{NETNS}/{ends[0]}",
        "to": topology.with_port(_to(cell, flow), PORT + 2 + number),
        "to_netns": f"{NETNS}/{ends[1]}",
        "start_s": flow.start_s,
        "end_s": flow.start_s + flow.duration_s if flow.duration_s else cell.duration_s,
        "interval_ms": round(1000 / flow.packets_per_s, 4),
        "bytes": flow.packet_bytes,
        "echo": flow.kind == "ping",
    }


def _quic_paths(cell: Cell, direction: str) -> int | None:
    """How many paths the server allows a QUIC connection; None: no QUIC."""
    if not any(flow.quic and flow.direction == direction for flow in cell.flows):
        return None
    return max(len(cell.links), 1)


def _paths(cell: Cell, flow: Flow) -> list[dict[str, str]]:
    """The paths after the first: between the addresses also used by MPTCP."""
    if flow.transport != "mpquic":
        return []
    ends = ((topology.sender_address(i), topology.receiver_address(i, 0)) for i in _others(cell))
    return [{"local": local, "remote": remote} for local, remote in ends]


def _others(cell: Cell) -> range:
    return range(1, len(cell.links))


def visits(cell: Cell, flow: Flow, generator: random.Random) -> list[str]:
    """Addresses in the order of connections, repeated from the first: each in turn, or as often as
    `visits` says, in random order.  Empty for a flow with one destination."""
    addresses = [one.address for one in of_flow(cell, flow)]
    if flow.visits is None:
        return addresses
    counts = wholes(flow.visits, len(addresses), generator)
    visited = [a for a, count in zip(addresses, counts, strict=True) for _ in range(count)]
    generator.shuffle(visited)
    return visited


def arrivals_s(flow: Flow, visited: int, generator: random.Random) -> list[float]:
    """Random starts: those of a Poisson process, given their number, are evenly distributed."""
    if flow.arrive_within_s is None:
        return []
    count = _connections(flow, visited) or 0
    within_s = flow.arrive_within_s
    starts = sorted(flow.start_s + within_s * generator.random() for _ in range(count))
    return [round(at_s, 6) for at_s in starts]


def _connections(flow: Flow, visited: int) -> int | None:
    if flow.connections is None and visited:
        return visited
    if flow.connections is None and (flow.bytes or flow.sizes_bytes):
        return flow.streams
    return flow.connections


def _work(flow: Flow, visited: int, generator: random.Random) -> dict[str, Any]:
    match flow.kind:
        case "pareto":
            return {"kind": "sized", "bytes": pareto_sizes(flow, generator)}
        case "request":
            return {
                "kind": "exchange",
                "request_bytes": flow.request_bytes,
                "response_bytes": flow.response_bytes,
                "think_ms": flow.think_ms,
                "header_apart": flow.header_apart,
            }
        case "short":
            return {"kind": "short", "answer_bytes": SHORT_ANSWER_BYTES}
    if flow.sizes_bytes is not None:
        count = _connections(flow, visited) or 1
        return {"kind": "sized", "bytes": wholes(flow.sizes_bytes, count, generator)}
    if flow.bytes:
        return {"kind": "sized", "bytes": [flow.bytes]}
    return {"kind": "timed", "seconds": flow.each_s}


def pareto_sizes(flow: Flow, generator: random.Random) -> list[int]:
    """Sizes by inversion, scale·u^(-1/alpha), cut: with alpha below 1 the mean is infinite.  The
    bounded law is the same with u above (scale/most)^alpha."""
    count = flow.connections or 1_000
    scale, most = flow.pareto_scale_bytes, flow.pareto_most_bytes or 10**10
    least = (scale / most) ** flow.pareto_alpha if flow.pareto_bounded else 0.0
    shares = (1 - (1 - least) * generator.random() for _ in range(count))
    return [min(round(scale * share ** (-1 / flow.pareto_alpha)), most) for share in shares]
