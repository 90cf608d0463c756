"""Runs inside the machine: one path, the cells one after another, a JSON line for each.

Standard library only.  Everything that could be read from disk is read before the first flow:
in virtual time a read takes an arbitrary time.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SAMPLE_S = 0.02
PORT = 5201
RIGHT = "10.200.2.2"
# Offsets in struct tcp_info, linux/tcp.h.
UNACKED, RTT, CWND, RETRANSMITTED = 24, 68, 80, 100
CLONE_NEWNET = 0x40000000
CHUNK = bytes(1 << 16)


def sh(line: str) -> None:
    done = subprocess.run(line.split(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{line}: {done.stderr}")


def namespace(name: str) -> None:
    sh(f"ip netns add {name}")
    sh(f"ip -n {name} link set lo up")
    for setting in ("tcp_no_metrics_save=1", "ip_forward=1"):
        sh(f"ip netns exec {name} sysctl -qw net.ipv4.{setting}")


def link(left: str, left_dev: str, right: str, right_dev: str) -> None:
    sh(f"ip link add {left_dev} netns {left} type veth peer name {right_dev} netns {right}")
    for name, dev in ((left, left_dev), (right, right_dev)):
        sh(f"ip -n {name} link set {dev} up gso_max_segs 1")


def build() -> None:
    for name in ("left", "router", "right"):
        namespace(name)
    link("left", "l0", "router", "m1")
    link("router", "m2", "right", "r0")
    for name, address, dev in (
        ("left", "10.200.1.1", "l0"),
        ("router", "10.200.1.2", "m1"),
        ("router", "10.200.2.1", "m2"),
        ("right", RIGHT, "r0"),
    ):
        sh(f"ip -n {name} address add {address}/24 dev {dev}")
    sh("ip -n left route add default via 10.200.1.2")
    sh("ip -n right route add default via 10.200.2.1")


def shape(cell: dict[str, Any], loss: str) -> None:
    for name, dev in (("left", "l0"), ("router", "m2"), ("right", "r0")):
        subprocess.run(f"tc -n {name} qdisc del dev {dev} root".split(), capture_output=True)
    clsact = ["tc", "-n", "router", "qdisc", "del", "dev", "m1", "clsact"]
    subprocess.run(clsact, capture_output=True)
    rate, packets = cell["rate_mbit"], cell["buffer_packets"]
    sh(f"tc -n right qdisc add dev r0 root netem limit 100000 delay {cell['delay_ms']}ms")
    sh(f"tc -n router qdisc add dev m2 root handle 1: tbf rate {rate}mbit burst 3028 limit 3028")
    if cell["mark_packets"]:
        mark = cell["mark_packets"] * 1514
        sh(
            "tc -n router qdisc add dev m2 parent 1:1 red limit 1514000 "
            f"min {mark} max {mark + 1514} avpkt 1514 burst {cell['mark_packets'] + 1} "
            f"probability 1 bandwidth {rate}mbit ecn"
        )
    else:
        sh(f"tc -n router qdisc add dev m2 parent 1:1 bfifo limit {packets * 1514}")
    if cell["loss"]:
        sh("tc -n router qdisc add dev m1 clsact")
        sh(f"tc -n router filter add dev m1 ingress bpf da obj {loss} sec tc")
    if cell["fq"]:
        sh("tc -n left qdisc add dev l0 root fq")
    for name in ("left", "right"):
        sh(f"ip netns exec {name} sysctl -qw net.ipv4.tcp_ecn={int(cell['ecn']) or 2}")


def enter(name: str) -> None:
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET):
        sys.exit(f"setns {name}: {os.strerror(ctypes.get_errno())}")
    os.close(handle)


def open_flow(listener: socket.socket, algorithm: str) -> tuple[socket.socket, socket.socket]:
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    sender.connect((RIGHT, PORT))
    receiver, _ = listener.accept()
    used = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    if used != algorithm:
        sys.exit(f"asked for {algorithm}, got {used}")
    sender.setblocking(False)
    receiver.setblocking(False)
    return sender, receiver


def u32(info: bytes, at: int) -> int:
    return int(struct.unpack_from("=I", info, at)[0])


class Flow:
    def __init__(self, listener: socket.socket, algorithm: str) -> None:
        self.sender, self.receiver = open_flow(listener, algorithm)
        self.algorithm = algorithm
        self.received = 0
        self.series: list[tuple[int, int]] = []  # cwnd in packets, srtt in us
        self.bytes_each_second: list[int] = []

    def sample(self) -> None:
        info = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        self.series.append((u32(info, CWND), u32(info, RTT)))

    def report(self, seconds: float) -> dict[str, Any]:
        info = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        cwnds = [cwnd for cwnd, _ in self.series]
        rtts = sorted(rtt for _, rtt in self.series)
        return {
            "algorithm": self.algorithm,
            "goodput_mbit": self.received * 8 / seconds / 1e6,
            "mean_cwnd": sum(cwnds) / len(cwnds),
            "mean_rtt_ms": sum(rtts) / len(rtts) / 1e3,
            "median_rtt_ms": rtts[len(rtts) // 2] / 1e3,
            "retransmitted": u32(info, RETRANSMITTED),
            "bytes_each_second": self.bytes_each_second,
            "cwnd_each_200ms": cwnds[::10],
        }


def serve(flows: list[Flow], seconds: float) -> None:
    """Keeps every sender's buffer full and every receiver's empty, and takes samples."""
    selector = selectors.DefaultSelector()
    for flow in flows:
        selector.register(flow.sender, selectors.EVENT_WRITE, flow)
        selector.register(flow.receiver, selectors.EVENT_READ, flow)
    start = time.monotonic()
    next_sample, next_second = start + SAMPLE_S, start + 1
    while (now := time.monotonic()) < start + seconds:
        if now >= next_sample:
            for flow in flows:
                flow.sample()
            next_sample += SAMPLE_S
        if now >= next_second:
            for flow in flows:
                flow.bytes_each_second.append(flow.received)
            next_second += 1
        for key, events in selector.select(max(0.0, next_sample - time.monotonic())):
            flow = key.data
            try:
                if events & selectors.EVENT_READ:
                    flow.received += len(flow.receiver.recv(1 << 18))
                else:
                    flow.sender.send(CHUNK)
            except BlockingIOError:
                pass
    selector.close()


def run(cell: dict[str, Any], listener: socket.socket) -> dict[str, Any]:
    if cell["ecn"]:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cell["algorithm"].encode())
    names = [cell["algorithm"]]
    if cell["against"]:
        names.append(names[0] if cell["against"] == "same" else cell["against"])
    busy = busy_s()
    flows = [Flow(listener, name) for name in names]
    serve(flows, cell["seconds"])
    report = {
        "cell": cell,
        "busy_s": busy_s() - busy,
        "flows": [flow.report(cell["seconds"]) for flow in flows],
        "programs": programs(cell["algorithm"]),
    }
    for flow in flows:
        flow.sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        flow.sender.close()
        flow.receiver.close()
    return report


def busy_s() -> float:
    """Time that the one CPU was not idle since boot."""
    up, idle = Path("/proc/uptime").read_text().split()
    return float(up) - float(idle)


def programs(algorithm: str) -> list[dict[str, Any]]:
    """Calls and instructions of the struct_ops programs so far (kernel.bpf_stats_enabled)."""
    if not algorithm.startswith("tp_"):
        return []
    done = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True)
    listed = json.loads(done.stdout or "[]")
    return [
        {"name": p["name"], "calls": p["run_cnt"], "instructions": p["run_time_ns"]}
        for p in listed
        if p.get("type") == "struct_ops" and p.get("run_cnt")
    ]


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    for name in spec["ours"]:
        sh(f"{spec['tcpilot']} cc load {name}")
    for name in spec["modules"]:
        sh(f"modprobe {name}")
    build()
    enter("right")
    listener = socket.create_server(("0.0.0.0", PORT))
    enter("left")
    warm = socket.create_connection((RIGHT, PORT))
    listener.accept()[0].close()
    warm.close()
    for cell in spec["cells"]:
        shape(cell, spec["loss"])
        print(json.dumps(run(cell, listener)), flush=True)


if __name__ == "__main__":
    main()
