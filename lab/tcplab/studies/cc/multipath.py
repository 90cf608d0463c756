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

from tcplab.studies.cc.guest import CHUNK, PORT, enter, sh

IPPROTO_MPTCP = 262
SERVER = "10.202.1.2"
NAMESPACES = ("client", "router", "server")


def namespaces(links: list[dict[str, Any]]) -> None:
    """client - router - server by each link, which the router keeps apart.

    Rate and buffer are the router's: behind a queue of its own, a sender would be held back by
    its stack (TCP small queues) and not by its window.  All delay is on the way back.
    """
    for name in NAMESPACES:
        sh(f"ip netns add {name}")
        sh(f"ip -n {name} link set lo up")
        for setting in ("ipv4.tcp_no_metrics_save=1", "ipv4.ip_forward=1", "mptcp.enabled=1"):
            sh(f"ip netns exec {name} sysctl -qw net.{setting}")
        sh(f"ip netns exec {name} sysctl -qw net.ipv4.conf.all.rp_filter=0")
        sh(f"ip -n {name} mptcp limits set subflow 4 add_addr_accepted 4")
    for at, link in enumerate(links, 1):
        pair("client", f"c{at}", f"10.201.{at}.1", "router", f"a{at}", f"10.201.{at}.254")
        pair("router", f"b{at}", f"10.202.{at}.254", "server", f"s{at}", f"10.202.{at}.2")
        rate = f"rate {link['rate_mbit']}mbit burst 3028 limit {link['buffer_packets'] * 1514}"
        sh(f"tc -n router qdisc add dev b{at} root handle 1: tbf {rate}")
        sh(f"tc -n server qdisc add dev s{at} root netem limit 100000 delay {link['delay_ms']}ms")
        # Packets that come by a link go on by that link.
        sh(f"ip -n router rule add iif a{at} table {at}")
        sh(f"ip -n router route add {SERVER} via 10.202.{at}.2 dev b{at} table {at}")
        sh(f"ip -n server route add 10.201.{at}.0/24 via 10.202.{at}.254 dev s{at}")
        sh(f"ip -n client rule add from 10.201.{at}.0/24 table {at}")
        sh(f"ip -n client route add default via 10.201.{at}.254 dev c{at} table {at}")
    sh("ip -n client route add default via 10.201.1.254 dev c1")


def pair(left: str, left_dev: str, left_ip: str, right: str, right_dev: str, right_ip: str) -> None:
    sh(f"ip link add {left_dev} netns {left} type veth peer name {right_dev} netns {right}")
    for name, dev, address in ((left, left_dev, left_ip), (right, right_dev, right_ip)):
        sh(f"ip -n {name} link set {dev} up gso_max_segs 1")
        sh(f"ip -n {name} address add {address}/24 dev {dev}")


def more_subflows(cell: dict[str, Any]) -> None:
    """Each further address of the client opens a subflow, by its own link or the shared one."""
    if len(cell["links"]) > 1:
        sh("ip -n client mptcp endpoint add 10.201.2.1 dev c2 subflow")
        return
    for host in range(11, 10 + cell["subflows"]):
        sh(f"ip -n client address add 10.201.1.{host}/24 dev c1")
        sh(f"ip -n client mptcp endpoint add 10.201.1.{host} dev c1 subflow")


def remove() -> None:
    for name in NAMESPACES:
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
        time.sleep(0.005)
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
    more_subflows(cell)
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
