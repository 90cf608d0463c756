#!/usr/bin/env python3
"""A fleet of two hosts beside a host alone, to look at: no traffic of this host is touched.

Three hosts, a, b and alone, each a network namespace with a server behind two links: one loses
packets, one is clean. Host a learns both links. Host b has never been there, but its agent hears
what a says; host alone hears nothing. Then b and alone upload the same, and the times stand side by
side.

The agents share a folder. `pathrelay` of the laboratory delays and loses packets, so no netem is
needed. Needs root. Everything it makes is named tcpilot-fleet-demo, and is removed at the end,
however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import demo
from demo import TARGET, TCPILOT, inside, ip, run, running, say

PATHRELAY, FLOWGEN = str(TARGET / "pathrelay"), str(TARGET / "flowgen")
AGENT = str(TARGET / "tcpilot-fleet")
NAME = "tcpilot-fleet-demo"
LOSSY, CLEAN = "198.51.100", "8.1.2"
BOTH = (("the lossy prefix", LOSSY), ("the clean prefix", CLEAN))
PORT = "5201"
WAIT_S = 60.0

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
# A host with another default, such as bbr, allows its namespaces no cubic.
DEFAULT = "cubic" if "cubic" in ALLOWED.read_text().split() else "reno"

CONFIG = f"""
algorithms = ["{DEFAULT}", "bbr"]
[learner]
kind = "thompson"
[effect]
hold_out_percent = 0  # no part of a demonstration keeps the default
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--learn", type=int, default=30, metavar="N", help="uploads of a to each address (30)")
    add("--first", type=int, default=10, metavar="N", help="uploads of b and alone (10)")
    add("--bytes", type=int, default=600_000, metavar="N", help="of each upload (600000)")
    add("--loss", default="0.05", metavar="SHARE", help="of packets on the lossy link (0.05)")
    options = parser.parse_args()
    missing = [p for p in (TCPILOT, AGENT, FLOWGEN, PATHRELAY) if not Path(p).exists()]
    if missing:
        return fail(f"{missing[0]} is not there; run: make fleet-demo")
    if os.geteuid() != 0:
        return fail("namespaces need root; run: sudo make fleet-demo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as folder:
        play(options, Path(folder))
    say(f"\nThis took {time.monotonic() - STARTED:.0f} s. Nothing of it is left on this host.")
    return 0


STARTED = time.monotonic()


def fail(text: str) -> int:
    print(f"fleet-demo: {text}", file=sys.stderr)
    return 1


class Host:
    """A namespace with two links to a server, a cgroup, a daemon, and its agent."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.near, self.far = f"{NAME}-{name}", f"{NAME}-{name}-far"
        self.folder = folder / name
        self.folder.mkdir()
        self.agent = self.folder / "agent"
        self.agent.mkdir()
        self.socket = ("--socket", str(self.folder / "tcpilot.sock"))
        self.cgroup = demo_cgroup(self.near)

    @contextlib.contextmanager
    def there(self, loss: str) -> Iterator[None]:
        self.remove()  # of a killed run
        try:
            for namespace in (self.near, self.far):
                ip("netns", "add", namespace)
                ip("-n", namespace, "link", "set", "lo", "up")
            self.cgroup.mkdir()
            with self.links(loss), self.server():
                yield
        finally:
            self.remove()

    def remove(self) -> None:
        present = ip("netns", "list").split()
        for namespace in (self.near, self.far):
            if namespace in present:
                ip("netns", "delete", namespace)
        if self.cgroup.exists():
            self.cgroup.rmdir()

    @contextlib.contextmanager
    def links(self, loss: str) -> Iterator[None]:
        words = [PATHRELAY]
        for device, lost in (("lossy", f",loss={loss},seed=5"), ("clean", "")):
            link = f"near={self.near}/{device},far={self.far}/{device},delay_ms=10,back_ms=10"
            words += ["--link", link + lost]
        with running(*words) as relay:
            relay.stdout.readline()  # the devices are there
            for device, prefix in (("lossy", LOSSY), ("clean", CLEAN)):
                ip("-n", self.near, "address", "add", f"{prefix}.1/24", "dev", device)
                for host in (2, 3, 4):
                    ip("-n", self.far, "address", "add", f"{prefix}.{host}/24", "dev", device)
                for namespace in (self.near, self.far):
                    ip("-n", namespace, "link", "set", device, "up", "gso_max_segs", "1")
                queue = ["tbf", "rate", "40mbit", "burst", "15kb", "latency", "50ms"]
                run("tc", "-n", self.near, "qdisc", "add", "dev", device, "root", *queue)
            for namespace in (self.near, self.far):
                for setting in (f"tcp_congestion_control={DEFAULT}", "tcp_no_metrics_save=1"):
                    run(*inside(namespace, "sysctl", "-qw", f"net.ipv4.{setting}"))
            yield

    @contextlib.contextmanager
    def server(self) -> Iterator[None]:
        words = inside(self.far, FLOWGEN, "serve", "--listen", f"[::]:{PORT}")
        with running(*words) as server:
            server.stdout.readline()  # it listens
            yield

    @contextlib.contextmanager
    def daemon(self, has_fleet: bool = True) -> Iterator[None]:
        config = self.folder / "tcpilot.toml"
        fleet = f'[fleet]\ndir = "{self.agent}"\nsay_every_s = 1\n' if has_fleet else ""
        config.write_text(CONFIG + fleet)
        state = str(self.folder / "state.db")
        # In the namespace: hosts share nothing of other namespaces' addresses.
        words = ("nsenter", f"--net=/run/netns/{self.near}", TCPILOT, "run")
        words += ("--cgroup", str(self.cgroup), "--state", state, *self.socket)
        environment = {**os.environ, "RUST_LOG": "error"}
        with running(*words, "--config", str(config), env=environment):
            demo.wait_until_it_answers(self.socket)
            yield

    @contextlib.contextmanager
    def agents(self, engine: Path) -> Iterator[None]:
        settings = self.folder / "fleet.toml"
        lines = (
            f'store = "dir:{engine}"',
            'place = "here"',
            f'host = "{self.name}"',
            f'state_dir = "{self.agent}"',
            "insecure = true  # all of it is on one machine",
            "say_every_s = 1",
            "hear_every_s = 1",
        )
        settings.write_text("\n".join(lines) + "\n")
        environment = {**os.environ, "RUST_LOG": "error"}
        with running(AGENT, "--config", str(settings), "run", env=environment):
            wait("an agent", (self.agent / "status.json").exists)
            yield

    def upload(self, address: str, count: int, size: int) -> list[dict]:
        words = f"bulk --to {address}:{PORT} --bytes {size} --count {count} --gap-ms 20 --wait 120"

        def join() -> None:
            (self.cgroup / "cgroup.procs").write_text("0")

        with running(*inside(self.near, FLOWGEN, *words.split()), preexec_fn=join) as process:
            return list(demo.results(process))

    def explain(self, address: str) -> str:
        return run(TCPILOT, "explain", address, *self.socket)

    def fleet(self) -> dict:
        status = json.loads(run(TCPILOT, "status", "--json", *self.socket))
        return status["fleet"]


def demo_cgroup(name: str) -> Path:
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    root = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    if not root:
        raise SystemExit("fleet-demo: cgroup v2 is not mounted")
    return Path(root) / name


def wait(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit(f"fleet-demo: waited {WAIT_S:.0f} s in vain for {what}")
        time.sleep(0.2)


def play(options: argparse.Namespace, folder: Path) -> None:
    engine = folder / "engine"
    engine.mkdir()
    a, b, alone = (Host(name, folder) for name in ("a", "b", "alone"))
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        for host in (a, b, alone):
            enter(host.there(options.loss))
        for host in (a, b):
            enter(host.agents(engine))
        enter(a.daemon())
        enter(b.daemon())
        enter(alone.daemon(has_fleet=False))
        say(f"Host b has never sent anything to {LOSSY}.0/24 or {CLEAN}.0/24. It says:\n")
        say(b.explain(f"{LOSSY}.4"))
        say(f"Host a learns: {options.learn} uploads to each of two addresses of both prefixes.")
        for _, prefix in BOTH:
            for number in (2, 3):
                a.upload(f"{prefix}.{number}", options.learn, options.bytes)
        wait("host a to say two groups", lambda: a.fleet()["groups_said"] >= 2)
        wait("host b to hear of two groups", lambda: b.fleet()["groups_heard"] >= 2)
        say("\nHost b has sent nothing yet, and has heard of both:\n")
        for _, prefix in BOTH:
            say(b.explain(f"{prefix}.4"))
        say(run(AGENT, "--config", str(b.folder / "fleet.toml"), "status"))
        compare(options, b, alone)


def compare(options: argparse.Namespace, b: Host, alone: Host) -> None:
    """Both upload at the same time of day, one after the other."""
    say(f"\nThe first {options.first} uploads of {options.bytes / 1e6:g} MB, seconds each:\n")
    for text, prefix in BOTH:
        for host in (b, alone):
            rows = host.upload(f"{prefix}.4", options.first, options.bytes)
            seconds = [8 * row["bytes"] / row["goodput_bits_per_s"] for row in rows]
            names = [row["cc_start"] for row in rows]
            times = " ".join(f"{s:5.2f}" for s in seconds)
            say(f"  {text}, host {host.name:<6} {times}  sum {sum(seconds):6.1f}")
            used = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
            say(f"  {'':<30} median {statistics.median(seconds):.2f} s; began with {used}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
