"""The cost of `tcpilot watch`: measured on this machine, as root; prints a line of JSON.

python -m tcplab.studies.watch cost                  # in a machine in virtual time: instructions
python -m tcplab.studies.watch cost --here           # on this host: nanoseconds
python -m tcplab.studies.watch cost --limit lru      # of limit.bpf.c up to this step, in its place
python -m tcplab.studies.watch cost --clock          # the cost of the statistics themselves

Eight flows through a router, at its bottleneck; the kernel's own statistics of BPF programs
(kernel.bpf_stats_enabled) count the time in the programs.  In virtual time an instruction
takes 1 ns.  Standard library only, and libbpf for the limit: this file is what the machine runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

FLOWS = 8
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


TCX_INGRESS, TCX_EGRESS = 46, 47
PROG_FD_BY_ID, INFO_BY_FD, LINK_CREATE = 13, 15, 28
CALL = {"x86_64": 321, "aarch64": 280}[platform.machine()]
"""bpf(2), and some of its commands."""


def sh(line: str) -> None:
    done = subprocess.run(line.split(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{line}: {done.stderr}")


@contextlib.contextmanager
def ends(rate_mbit: int, delay: bool, offloads: bool) -> Iterator[tuple[str, str, str]]:
    """Sender, router and receiver; with netem, if the kernel has it, 40 ms away.  With
    offloads packets cross all of them as super-packets of up to 64 KB.

    The router's queue is the bottleneck: a host holds back packets waiting in its own queue.
    """
    sender, router, far = names = [f"cost{os.getpid()}{end}" for end in "nrf"]
    try:
        for name in names:
            sh(f"ip netns add {name}")
        sh(f"ip link add c1 netns {sender} type veth peer name c1 netns {router}")
        sh(f"ip link add c0 netns {router} type veth peer name c0 netns {far}")
        for name, device, address in (
            (sender, "c1", "10.81.0.1"),
            (router, "c1", "10.81.0.2"),
            (router, "c0", "10.82.0.1"),
            (far, "c0", "10.82.0.2"),
        ):
            sh(f"ip -n {name} address add {address}/24 dev {device}")
            sh(f"ip -n {name} link set {device} up" + " gso_max_segs 1" * (not offloads))
        sh(f"ip netns exec {router} sysctl -q -w net.ipv4.ip_forward=1")
        sh(f"ip -n {sender} route add default via 10.81.0.2")
        sh(f"ip -n {far} route add default via 10.82.0.1")
        room = "burst 6kb limit 150000"
        if offloads:  # of each a millisecond or four at 9 Gbit/s, and some super-packets
            room = f"burst {max(rate_mbit * 111, 80_000)} limit {max(rate_mbit * 444, 400_000)}"
        sh(f"tc -n {router} qdisc add dev c0 root tbf rate {rate_mbit}mbit {room}")
        if delay:
            sh(f"tc -n {far} qdisc add dev c0 root netem limit 100000 delay 40ms")
        yield sender, router, far
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def bpf(command: int, attributes: bytes) -> int:
    """A descriptor, or less than 0."""
    room = ctypes.create_string_buffer(attributes, 128)
    return int(ctypes.CDLL(None).syscall(CALL, command, room, len(room)))


def _name_of(number: int) -> str:
    """The name of a program, without the first word; `struct bpf_prog_info` has it at byte 64."""
    info = ctypes.create_string_buffer(232)
    fd = bpf(PROG_FD_BY_ID, struct.pack("=I", number))
    bpf(INFO_BY_FD, struct.pack("=IIQ", fd, len(info), ctypes.addressof(info)))
    os.close(fd)
    return info.raw[64:80].rstrip(b"\0").decode().partition("_")[2]


def link_tcx(program: int, device: str, where: int) -> bool:
    """Attaches a program to a device; older libbpf cannot."""
    return bpf(LINK_CREATE, struct.pack("=III", program, socket.if_nametoindex(device), where)) >= 0


def program_costs(pid: int) -> dict[str, tuple[int, int]]:
    """Runs and nanoseconds of a process's open BPF programs, in the order of loading."""
    found = {}
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            pairs = (line.split(":", 1) for line in entry.read_text().splitlines())
            info = {key: value.strip() for key, value in pairs}
            if "run_cnt" in info:
                number = int(info["prog_id"])
                found[number] = _name_of(number), int(info["run_cnt"]), int(info["run_time_ns"])
    return {name: (runs, ns) for _, (name, runs, ns) in sorted(found.items())}


class Step(IntEnum):
    """As in limit.bpf.c."""

    EMPTY = 0
    DEVICE = 1
    HEADER = 2
    LRU = 3
    ARRAY = 4
    CLOCK = 5


@dataclass(frozen=True)
class Plan:
    """One run."""

    binaries: Path
    rate_mbit: int
    seconds: int
    warm_s: int
    """Before the first packet counts: flows have settled then."""
    is_delayed: bool
    limit: Path | None = None
    """limit.bpf.c, compiled, in the watch's place."""
    options: tuple[str, ...] = ()
    """More of `tcpilot watch`."""
    offloads: bool = False


def measure(plan: Plan) -> dict[str, object]:
    """One run."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        with ends(plan.rate_mbit, plan.is_delayed, plan.offloads) as names:
            return _run(plan, *names)
    finally:
        STATS.write_text(before)


CLOCK_PACKETS = 20_000
CLOCK_TURNS = 5


def clock(plan: Plan) -> dict[str, object]:
    """The time of a call of an empty program, and the share of the kernel's statistics in it: from
    the router's sending time without programs and with the limit's, in turns."""
    spent: dict[str, list[int]] = {"none": [], "0": [], "1": []}
    before = STATS.read_text()

    def turn(what: str, inside: list[str]) -> None:
        found = subprocess.run([*inside, "send"], capture_output=True, check=True)
        spent[what].append(int(found.stdout))

    try:
        with ends(plan.rate_mbit, False, False) as (_, router, _far):
            inside = ["ip", "netns", "exec", router, sys.executable, __file__]
            for _ in range(CLOCK_TURNS):
                turn("none", inside)
            hold = [*inside, "hold", str(plan.limit)]
            with subprocess.Popen(hold, stdout=subprocess.PIPE) as holder:
                assert holder.stdout
                holder.stdout.readline()  # they are attached
                for i in range(2 * CLOCK_TURNS):
                    STATS.write_text(str(i % 2))
                    turn(str(i % 2), inside)
                calls = sum(runs for runs, _ in program_costs(holder.pid).values())
                holder.terminate()
    finally:
        STATS.write_text(before)
    each = calls / (CLOCK_PACKETS * CLOCK_TURNS)
    none, off, on = (sorted(times)[CLOCK_TURNS // 2] / CLOCK_PACKETS for times in spent.values())
    return {
        "calls_per_packet": round(each, 2),
        "ns_per_packet": round(none),
        "ns_per_call": round((off - none) / each, 1),
        "ns_per_call_more_with_statistics": round((on - off) / each, 1),
        "kernel": os.uname().release,
    }


def send() -> int:
    """Nanoseconds for CLOCK_PACKETS unanswered packets from the router."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("10.82.0.2", 9))
        began = time.monotonic_ns()
        for _ in range(CLOCK_PACKETS):
            with contextlib.suppress(ConnectionError):
                out.send(b"packet")
        return time.monotonic_ns() - began


def _run(plan: Plan, sender: str, router: str, far: str) -> dict[str, object]:
    at_sender, at_router, at_far = (["ip", "netns", "exec", name] for name in (sender, router, far))
    flowgen, tcpilot = (str(plan.binaries / name) for name in ("flowgen", "tcpilot"))
    pipe = subprocess.PIPE
    serve = [*at_far, flowgen, "serve", "--listen", "10.82.0.2:5201"]
    watch = [*at_router, tcpilot, "watch", "c0", "--json", *plan.options]
    if plan.limit:
        watch = [*at_router, sys.executable, __file__, "hold", str(plan.limit)]
    seconds = plan.warm_s + plan.seconds
    words = f"bulk --to 10.82.0.2:5201 --seconds {seconds} --parallel {FLOWS}"
    with (
        subprocess.Popen(serve, stdout=pipe) as server,
        subprocess.Popen(watch, stdout=pipe, text=True) as watcher,
    ):
        assert server.stdout and watcher.stdout
        try:
            server.stdout.readline()
            watcher.stdout.readline()  # it is attached
            tracking = LightTracking()
            threading.Thread(target=tracking.follow, args=(watcher.stdout,), daemon=True).start()
            with subprocess.Popen([*at_sender, flowgen, *words.split()], stdout=pipe) as client:
                time.sleep(plan.warm_s)
                before = program_costs(watcher.pid), _queued(router)
                tracking.forget()
                client.communicate()
                costs, packets = program_costs(watcher.pid), _queued(router)
                assert client.returncode == 0
            watcher.terminate()
            watcher.wait()
        finally:
            watcher.kill()
            server.kill()
    for name, (runs, ns) in before[0].items():
        costs[name] = costs[name][0] - runs, costs[name][1] - ns
    return report(costs, packets - before[1]) | {"light_tracking": tracking.share()}


class LightTracking:
    """The share of time in light tracking, from the lines of the watch.

    Somebody has to read them, or the watch waits.
    """

    def __init__(self) -> None:
        self.seen = self.light = 0

    def follow(self, lines: Iterable[str]) -> None:
        """Reads until there are no more."""
        for line in lines:
            if line.startswith("{"):
                found = json.loads(line)
                self.seen += "light_tracking" in found
                self.light += bool(found.get("light_tracking"))

    def forget(self) -> None:
        """All lines so far."""
        self.seen = self.light = 0

    def share(self) -> float | None:
        """The share of flows and seconds; None without flows."""
        return round(self.light / self.seen, 3) if self.seen else None


def _queued(netns: str) -> int:
    """Packets arriving at the queue of the link, by its own counters."""
    words = ["tc", "-n", netns, "-s", "-j", "qdisc", "show", "dev", "c0", "root"]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)[0]
    return int(found["packets"]) + int(found["drops"])


def report(costs: dict[str, tuple[int, int]], packets: int) -> dict[str, object]:
    """Per data packet: the whole cost of it and its acknowledgement."""
    total = sum(ns for _, ns in costs.values())
    each = {
        word: {"runs": runs, "ns_per_run": round(ns / max(runs, 1))}
        for word, (runs, ns) in costs.items()
    }
    return {
        "packets": packets,
        "ns_per_packet": round(total / max(packets, 1)),
        "packets_per_second_and_core": round(packets * 1e9 / max(total, 1)),
        "programs": each,
        "kernel": os.uname().release,
    }


class _Libbpf:
    """The few calls for the limit."""

    def __init__(self, path: str) -> None:
        self.lib = lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
        for name in ("object__open_file", "object__next_program", "program__attach"):
            getattr(lib, f"bpf_{name}").restype = ctypes.c_void_p
        for name in ("section_name", "name"):
            getattr(lib, f"bpf_program__{name}").restype = ctypes.c_char_p
        opened = lib.bpf_object__open_file(path.encode(), None)
        if not opened or lib.bpf_object__load(ctypes.c_void_p(opened)):
            sys.exit(f"{path}: cannot be loaded")
        self.object = ctypes.c_void_p(opened)

    def name_device(self, name: str) -> None:
        """Writes the device's index and its namespace into the programs' memory."""
        netns = Path("/proc/self/ns/net").stat().st_ino
        where = struct.pack("=III", socket.if_nametoindex(name), netns, 0)
        bss = self.lib.bpf_object__find_map_fd_by_name(self.object, b".bss")
        key = ctypes.c_uint32(0)
        if self.lib.bpf_map_update_elem(bss, ctypes.byref(key), where, ctypes.c_uint64(0)):
            sys.exit("the device could not be named")

    def attach(self, device: str) -> None:
        """Attaches each program, until the process ends."""
        found, places = None, {b"limit_in": TCX_EGRESS, b"limit_back": TCX_INGRESS}
        while found := self.lib.bpf_object__next_program(self.object, ctypes.c_void_p(found)):
            program = ctypes.c_void_p(found)
            if self.lib.bpf_program__section_name(program) == b"tc":
                place = places[self.lib.bpf_program__name(program)]
                attached = link_tcx(self.lib.bpf_program__fd(program), device, place)
            else:
                attached = bool(self.lib.bpf_program__attach(program))
            if not attached:
                sys.exit("a program cannot be attached")


def hold(path: str) -> None:
    """Holds the limit's programs at the device until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    programs = _Libbpf(path)
    programs.name_device("c0")
    programs.attach("c0")
    print("attached", flush=True)
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2])
        sys.exit()
    if sys.argv[1] == "send":
        print(send())
        sys.exit()
    if sys.argv[1] == "clock":
        print(json.dumps(clock(Plan(Path(), 10_000, 0, 0, False, Path(sys.argv[2])))))
        sys.exit()
    where, rate, length, warm, offloads, *limits = sys.argv[1:]
    limit = Path(limits[0]) if limits else None
    plan = Plan(Path(where), int(rate), int(length), int(warm), True, limit, (), offloads == "1")
    print(json.dumps(measure(plan)))
