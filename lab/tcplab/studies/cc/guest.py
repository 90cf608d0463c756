"""Runs inside the machine: one path, the cells one after another, a JSON line for each.

Standard library only, and libbpf.  Everything that could be read from disk is read before the
first flow: in virtual time a read takes an arbitrary time.
"""

from __future__ import annotations

import contextlib
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
from typing import Any, NoReturn

from tcplab.studies.cc.cost import AckCost

SAMPLE_S = 0.02
# The kernel's own sizing of buffers limits flows in deep queues, and not every flow alike.  Four
# flows with twice as much bring the machine's TCP under memory pressure, which limits them too.
BUFFER_BYTES = 8 << 20
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
PORT = 5201
RIGHT = "10.200.2.2"
# Offsets in struct tcp_info, linux/tcp.h.
UNACKED, RTT, CWND, RETRANSMITTED = 24, 68, 80, 100
BYTES_ACKED, SEGMENTS_OUT = 120, 156
CLONE_NEWNET = 0x40000000
CHUNK = bytes(1 << 16)
READ_BYTES = 16384  # received before the reader wakes: it sees to nothing but its own cost


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


def shape(cell: dict[str, Any], loss: dict[str, str]) -> None:
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
    elif cell["mark_ms"]:
        # CoDel itself is kept from acting: only its threshold marks.
        sh(
            "tc -n router qdisc add dev m2 parent 1:1 codel limit 1000 target 10s interval 20s "
            f"ecn ce_threshold {cell['mark_ms']}ms"
        )
    else:
        sh(f"tc -n router qdisc add dev m2 parent 1:1 bfifo limit {packets * 1514}")
    if cell["loss_per_mille"]:
        made = loss[f"{cell['loss_per_mille']}-{cell['seed']}"]
        sh("tc -n router qdisc add dev m1 clsact")
        sh(f"tc -n router filter add dev m1 ingress bpf da obj {made} sec tc")
    if cell["fq"]:
        sh("tc -n left qdisc add dev l0 root fq")
    for name in ("left", "right"):
        sh(f"ip netns exec {name} sysctl -qw net.ipv4.tcp_ecn={int(cell['ecn']) or 2}")


def enter(name: str) -> None:
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET):
        sys.exit(f"setns {name}: {os.strerror(ctypes.get_errno())}")
    os.close(handle)


def open_flow(listener: socket.socket, algorithm: str) -> tuple[socket.socket, int]:
    """The sender, and the process that reads the arriving data."""
    sender = socket.socket()
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    sender.connect((RIGHT, PORT))
    receiver, _ = listener.accept()
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, READ_BYTES)
    used = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    if used != algorithm:
        sys.exit(f"asked for {algorithm}, got {used}")
    sender.setblocking(False)
    reader = os.fork()
    if not reader:
        discard(receiver.fileno())
    receiver.close()
    return sender, reader


def discard(receiver: int) -> NoReturn:
    """Reads to the end, in a loop that costs the machine as little as it can."""
    os.dup2(receiver, 3)
    os.closerange(4, 1024)  # the senders' ends must be nowhere but in the parent
    source, buffer = socket.socket(fileno=3), bytearray(1 << 20)
    with contextlib.suppress(OSError):
        while source.recv_into(buffer, 0, socket.MSG_TRUNC):
            pass
    os._exit(0)


def u32(info: bytes, at: int) -> int:
    return int(struct.unpack_from("=I", info, at)[0])


def u64(info: bytes, at: int) -> int:
    return int(struct.unpack_from("=Q", info, at)[0])


class Flow:
    def __init__(self, listener: socket.socket, algorithm: str) -> None:
        self.sender, self.reader = open_flow(listener, algorithm)
        self.algorithm = algorithm
        self.series: list[tuple[int, int]] = []  # cwnd in packets, srtt in us
        self.acked: list[int] = []  # bytes, at each sample

    def sample(self) -> bytes:
        info = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        self.series.append((u32(info, CWND), u32(info, RTT)))
        self.acked.append(u64(info, BYTES_ACKED))
        return info

    def report(self, seconds: float) -> dict[str, Any]:
        info = self.sample()
        cwnds = [cwnd for cwnd, _ in self.series]
        rtts = sorted(rtt for _, rtt in self.series)
        return {
            "algorithm": self.algorithm,
            "goodput_mbit": self.acked[-1] * 8 / seconds / 1e6,
            "mean_cwnd": sum(cwnds) / len(cwnds),
            "mean_rtt_ms": sum(rtts) / len(rtts) / 1e3,
            "median_rtt_ms": rtts[len(rtts) // 2] / 1e3,
            "p95_rtt_ms": rtts[len(rtts) * 95 // 100] / 1e3,
            "retransmitted": u32(info, RETRANSMITTED),
            "sent": u32(info, SEGMENTS_OUT),
            "bytes_each_second": self.acked[round(1 / SAMPLE_S) :: round(1 / SAMPLE_S)],
            "cwnd_each_200ms": cwnds[::10],
            "rtt_us_each_200ms": [rtt for _, rtt in self.series[::10]],
        }

    def end(self) -> None:
        self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sender.close()
        os.waitpid(self.reader, 0)


def serve(flows: list[Flow], seconds: float) -> None:
    """Keeps every sender's buffer full, and takes samples."""
    selector = selectors.DefaultSelector()
    for flow in flows:
        selector.register(flow.sender, selectors.EVENT_WRITE, flow)
    start = time.monotonic()
    next_sample = start + SAMPLE_S
    while (now := time.monotonic()) < start + seconds:
        if now >= next_sample:
            for flow in flows:
                flow.sample()
            next_sample += SAMPLE_S
        for key, _ in selector.select(max(0.0, next_sample - time.monotonic())):
            with contextlib.suppress(BlockingIOError):
                key.data.sender.send(CHUNK)
    selector.close()


def run(cell: dict[str, Any], listener: socket.socket, cost: AckCost) -> dict[str, Any]:
    if cell["ecn"]:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cell["algorithm"].encode())
    names = [cell["algorithm"]]
    if cell["against"]:
        names += [names[0] if cell["against"] == "same" else cell["against"]] * cell["rivals"]
    calls, ns = cost.of(names[0])
    flows = []
    for name in names:
        flows.append(Flow(listener, name))
        time.sleep(cell["apart_ms"] / 1e3)
    serve(flows, cell["seconds"])
    all_calls, all_ns = cost.of(names[0])
    report = {
        "cell": cell,
        "acks": all_calls - calls,
        "ack_ns": (all_ns - ns) / max(1, all_calls - calls),
        "flows": [flow.report(cell["seconds"]) for flow in flows],
    }
    for flow in flows:
        flow.end()
    return report


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    for name in spec["ours"]:
        sh(f"{spec['tcpilot']} cc load {name}")
    for name in spec["modules"]:
        sh(f"modprobe {name}")
    build()
    enter("right")
    listener = socket.create_server(("0.0.0.0", PORT))
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    cost = AckCost(spec["ack_cost"])
    enter("left")
    warm = socket.create_connection((RIGHT, PORT))
    listener.accept()[0].close()
    warm.close()
    for cell in spec["cells"]:
        shape(cell, spec["loss"])
        print(json.dumps(run(cell, listener, cost)), flush=True)


if __name__ == "__main__":
    main()
