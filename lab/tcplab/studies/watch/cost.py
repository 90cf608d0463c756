"""What `tcpilot watch` costs: runs where it is started, as root; prints a line of JSON.

python -m tcplab.studies.watch cost                  # in a machine in virtual time: instructions
python -m tcplab.studies.watch cost --here           # on this host: nanoseconds

Two namespaces, eight flows at a bottleneck; the kernel's own statistics of BPF programs
(kernel.bpf_stats_enabled) tell the time in the programs.  In virtual time an instruction
takes 1 ns.  Standard library only: this file is what the machine runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FLOWS = 8
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
WORDS = ("in", "out", "drop", "back")
"""The programs, in the order in which they are loaded."""


def sh(line: str) -> None:
    done = subprocess.run(line.split(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{line}: {done.stderr}")


@contextlib.contextmanager
def ends(rate_mbit: int, delay: bool) -> Iterator[tuple[str, str]]:
    """Two namespaces and their link; with netem, where the kernel has it, 40 ms away."""
    near, far = f"cost{os.getpid()}n", f"cost{os.getpid()}f"
    try:
        for name in (near, far):
            sh(f"ip netns add {name}")
        sh(f"ip link add c0 netns {near} type veth peer name c0 netns {far}")
        for host, name in ((1, near), (2, far)):
            sh(f"ip -n {name} address add 10.82.0.{host}/24 dev c0")
            sh(f"ip -n {name} link set c0 up gso_max_segs 1")
        sh(f"tc -n {near} qdisc add dev c0 root tbf rate {rate_mbit}mbit burst 6kb limit 150000")
        if delay:
            sh(f"tc -n {far} qdisc add dev c0 root netem limit 100000 delay 40ms")
        yield near, far
    finally:
        for name in (near, far):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def program_costs(pid: int) -> list[tuple[int, int]]:
    """Runs and nanoseconds of each BPF program that a process has open, in order."""
    found = {}
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            pairs = (line.split(":", 1) for line in entry.read_text().splitlines())
            info = {key: value.strip() for key, value in pairs}
            if "run_cnt" in info:
                found[int(info["prog_id"])] = int(info["run_cnt"]), int(info["run_time_ns"])
    return [found[number] for number in sorted(found)]


def measure(binaries: Path, rate_mbit: int, seconds: int, delay: bool) -> dict[str, object]:
    """One run."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        with ends(rate_mbit, delay) as (near, far):
            return _run(binaries, (near, far), seconds)
    finally:
        STATS.write_text(before)


def _run(binaries: Path, names: tuple[str, str], seconds: int) -> dict[str, object]:
    near, far = (["ip", "netns", "exec", name] for name in names)
    flowgen, tcpilot = str(binaries / "flowgen"), str(binaries / "tcpilot")
    pipe = subprocess.PIPE
    serve = [*far, flowgen, "serve", "--listen", "10.82.0.2:5201"]
    watch = [*near, tcpilot, "watch", "c0", "--json"]
    words = f"bulk --to 10.82.0.2:5201 --seconds {seconds} --parallel {FLOWS}"
    with (
        subprocess.Popen(serve, stdout=pipe) as server,
        subprocess.Popen(watch, stdout=pipe, text=True) as watcher,
    ):
        assert server.stdout and watcher.stdout
        try:
            server.stdout.readline()
            watcher.stdout.readline()  # it is attached
            subprocess.run([*near, flowgen, *words.split()], stdout=pipe, check=True)
            costs = program_costs(watcher.pid)
            watcher.terminate()
            last = json.loads(watcher.stdout.read().splitlines()[-1])
        finally:
            watcher.kill()
            server.kill()
    return report(costs, int(last["in_packets"]))


def report(costs: list[tuple[int, int]], packets: int) -> dict[str, object]:
    """Per data packet: all that it and its acknowledgement cost."""
    total = sum(ns for _, ns in costs)
    each = {
        word: {"runs": runs, "ns_per_run": round(ns / max(runs, 1))}
        for word, (runs, ns) in zip(WORDS, costs, strict=True)
    }
    return {
        "packets": packets,
        "ns_per_packet": round(total / max(packets, 1)),
        "packets_per_second_and_core": round(packets * 1e9 / max(total, 1)),
        "programs": each,
        "kernel": os.uname().release,
    }


if __name__ == "__main__":
    where, rate, length, far_away = sys.argv[1:]
    print(json.dumps(measure(Path(where), int(rate), int(length), far_away == "netem")))
