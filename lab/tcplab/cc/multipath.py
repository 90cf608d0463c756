"""Runs inside the machine: one MPTCP connection over two links, or over one that it shares.

Standard library only; a JSON line for each cell.  See guest.py for why nothing is read meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tcplab.cc.guest import CHUNK, PORT, enter, sh

IPPROTO_MPTCP = 262
SERVER = "10.201.1.2"


def namespaces(links: list[dict[str, Any]]) -> None:
    """client - server by a link each: rate and buffer on the way there, delay on the way back."""
    for name in ("client", "server"):
        sh(f"ip netns add {name}")
        sh(f"ip -n {name} link set lo up")
        for setting in ("ipv4.tcp_no_metrics_save=1", "mptcp.enabled=1"):
            sh(f"ip netns exec {name} sysctl -qw net.{setting}")
        sh(f"ip -n {name} mptcp limits set subflow 4 add_addr_accepted 4")
    for at, link in enumerate(links, 1):
        sh(f"ip link add c{at} netns client type veth peer name s{at} netns server")
        for name, dev, host in (("client", f"c{at}", 1), ("server", f"s{at}", 2)):
            sh(f"ip -n {name} link set {dev} up gso_max_segs 1")
            sh(f"ip -n {name} address add 10.201.{at}.{host}/24 dev {dev}")
        limit = link["buffer_packets"] * 1514
        rate = f"rate {link['rate_mbit']}mbit burst 3028 limit {limit}"
        sh(f"tc -n client qdisc add dev c{at} root handle 1: tbf {rate}")
        sh(f"tc -n server qdisc add dev s{at} root netem limit 100000 delay {link['delay_ms']}ms")


def routes(cell: dict[str, Any]) -> None:
    if len(cell["links"]) > 1:
        # The second address opens a subflow to the same server, by its own link.
        sh("ip -n client mptcp endpoint add 10.201.2.1 dev c2 subflow")
        sh("ip -n client rule add from 10.201.2.1 table 2")
        sh("ip -n client route add 10.201.1.0/24 via 10.201.2.2 dev c2 table 2")
        sh("ip -n client route add 10.201.2.0/24 dev c2 table 2")
    else:
        # A shared bottleneck: more addresses on one link.
        for host in range(11, 10 + cell["subflows"]):
            sh(f"ip -n client address add 10.201.1.{host}/24 dev c1")
            sh(f"ip -n client mptcp endpoint add 10.201.1.{host} dev c1 subflow")
    for name in ("client", "server"):
        sh(f"ip netns exec {name} sysctl -qw net.ipv4.conf.all.rp_filter=0")


def remove() -> None:
    for name in ("client", "server"):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def sender(kind: int, algorithm: str) -> socket.socket:
    out = socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind)
    out.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    out.connect((SERVER, PORT))
    out.setblocking(False)
    return out


def pump(pairs: list[tuple[socket.socket, socket.socket]], until_s: float) -> list[int]:
    received = [0] * len(pairs)
    while time.monotonic() < until_s:
        for at, (out, back) in enumerate(pairs):
            with contextlib.suppress(BlockingIOError):
                out.send(CHUNK)
            with contextlib.suppress(BlockingIOError):
                received[at] += len(back.recv(1 << 20))
        time.sleep(0.002)
    return received


def link_bytes(links: int) -> list[int]:
    """Sent by the client, link by link."""
    out = []
    for at in range(1, links + 1):
        done = subprocess.run(
            ["ip", "-n", "client", "-j", "-s", "link", "show", f"c{at}"],
            capture_output=True,
            text=True,
        )
        out.append(int(json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"]))
    return out


def subflows() -> int:
    done = subprocess.run(
        ["ip", "netns", "exec", "client", "ss", "-Htni", "state", "established"],
        capture_output=True,
        text=True,
    )
    return done.stdout.count("tcp-ulp-mptcp")


def run(cell: dict[str, Any]) -> dict[str, Any]:
    remove()
    namespaces(cell["links"])
    routes(cell)
    enter("server")
    multi = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    multi.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    multi.bind(("0.0.0.0", PORT))
    multi.listen()
    enter("client")
    pairs = []
    kinds = [(IPPROTO_MPTCP, cell["algorithm"])]
    if cell["against"]:
        kinds.append((socket.IPPROTO_TCP, cell["against"]))
    for kind, algorithm in kinds:
        out = sender(kind, algorithm)
        back, _ = multi.accept()
        back.setblocking(False)
        pairs.append((out, back))
    pump(pairs, time.monotonic() + cell["warm_s"])
    before, start = link_bytes(len(cell["links"])), time.monotonic()
    received = pump(pairs, start + cell["seconds"])
    elapsed = time.monotonic() - start
    after = link_bytes(len(cell["links"]))
    report = {
        "cell": cell,
        "subflows": subflows(),
        "goodput_mbit": [8 * n / elapsed / 1e6 for n in received],
        "link_mbit": [8 * (b - a) / elapsed / 1e6 for a, b in zip(before, after, strict=True)],
    }
    for out, back in pairs:
        out.close()
        back.close()
    multi.close()
    return report


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    for name in spec["ours"]:
        sh(f"{spec['tcpilot']} cc load {name}")
    for cell in spec["cells"]:
        print(json.dumps(run(cell)), flush=True)


if __name__ == "__main__":
    main()
