#!/usr/bin/env python3
"""Kills parts of a fleet by SIGKILL, again and again, and proves that nothing is lost.

    scripts/fleet-kills.py [--kills 250] [--total 1000] [--binaries target/release] [--seed 1]

Two hosts, each a network namespace with a daemon and an agent, and one nats-server. Host a learns
from uploads; host b hears it. Meanwhile one of five processes is killed at a time, and started
again at once: the daemon or the agent of either host, or nats-server. After each kill:

- A value that the server has acknowledged is read back, or a newer one.
- The states that agents and daemons exchange are whole, and of this fleet's two prefixes only.
- Knowledge that the daemon has saved is said again after its death.
- A connection that was open before the first kill still echoes what it is sent, through both
  daemons' deaths; so does a new one.

At the end of a piece b must hear a's present state again, and no daemon may have refused a file.

A run goes on where the last one ended: target/fleet-kills.json counts the kills up to --total. It
needs root, nats-server, and a built tcpilot, tcpilot-fleet, flowgen and pathrelay. Everything that
it makes is named tcpilot-fleet-kills, and is removed at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import demo
from demo import ROOT, inside, say

fleet_demo = importlib.import_module("fleet-demo")
NAME = fleet_demo.NAME = "tcpilot-fleet-kills"
COUNTS = ROOT / "target" / "fleet-kills.json"
ECHO_PORT = 5300
PREFIXES = {bytes(map(int, p.split("."))) for p in (fleet_demo.LOSSY, fleet_demo.CLEAN)}
PARTS = ("agent a", "agent b", "daemon a", "daemon b", "engine")
GAP_S = 0.3

ECHO = f"""
import socket, threading
def serve(connection):
    while data := connection.recv(4096):
        connection.sendall(data)
server = socket.create_server(("", {ECHO_PORT}), backlog=64)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""

# Reads "old N" or "new N" and echoes the number N through the old connection or a new one.
CLIENT = f"""
import socket, sys
def echo(connection, word):
    data = word.encode() * 100
    connection.sendall(data)
    got = b""
    while len(got) < len(data):
        more = connection.recv(4096)
        if not more:
            return "closed"
        got += more
    return "good" if got == data else "other"
def describe(connection):
    # The first bytes of struct tcp_info (linux/tcp.h).
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\\0")[0]
    return f"state {{info[0]}}, retransmits {{info[2]}}, unacked {{info[24]}}, {{name.decode()}}"
old = socket.create_connection((sys.argv[1], {ECHO_PORT}))
old.settimeout(10)
for line in sys.stdin:
    kind, word = line.split()
    used = old if kind == "old" else socket.socket()
    stage = "echo"
    try:
        if kind == "new":
            stage = "connect"
            used.settimeout(10)
            used.connect((sys.argv[1], {ECHO_PORT}))
            stage = "echo"
        print(echo(used, word), flush=True)
    except OSError as error:
        print(f"{{stage}}: {{error}}; {{describe(used)}}", flush=True)
    if kind == "new":
        used.close()
"""


class Fault(Exception):
    """Something was lost, wrong or disturbed."""


class Part:
    """A process that is killed and started again."""

    def __init__(self, words: list[str], log: Path, ready: Callable[[], bool]) -> None:
        self.words, self.log, self.ready = words, log, ready
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "RUST_LOG": "error"}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        if self.process.poll() is not None:
            raise Fault(f"{self.words[0]} had ended by itself; see {self.log.read_text()[-400:]}")
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.start()
        self.wait()

    def wait(self) -> None:
        end = time.monotonic() + 60
        while not self.ready():
            if time.monotonic() > end:
                raise Fault(f"{' '.join(self.words)} does not come back within 60 s")
            time.sleep(0.05)


class Witness:
    """Puts numbers into the engine, and reads them back."""

    SUBJECT, STREAM = "$KV.tcpilot.h.here.witness.check", "KV_tcpilot"

    def __init__(self, port: int) -> None:
        self.port, self.number, self.acknowledged = port, 0, 0
        self.puts, self.is_over = 0, False
        self.requests = itertools.count()

    def ask(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        """One request on a connection of its own. An answer, or OSError."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout_s) as s,
            s.makefile("rb") as f,
        ):
            f.readline()  # INFO
            s.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
            inbox = f"_INBOX.{next(self.requests)}"
            head = f"SUB {inbox} 1\r\nPUB {subject} {inbox} {len(payload)}\r\n"
            s.sendall(head.encode() + payload + b"\r\n")
            while line := f.readline():
                words = line.split()
                if words[0] == b"MSG":
                    return f.read(int(words[-1]))
                if words[0] == b"HMSG":
                    headers, size = int(words[-2]), int(words[-1])
                    content = f.read(size)
                    status = content[:headers].split(b"\r\n")[0]
                    if b" 503" in status:
                        raise OSError("nobody answers yet")
                    return content[headers:]
        raise OSError("the server has closed")

    def put(self) -> None:
        """Puts the next number. Only an answer makes it acknowledged."""
        self.number += 1
        # A server that dies within an answer leaves half of one.
        with contextlib.suppress(OSError, ValueError, IndexError):
            answer = json.loads(self.ask(self.SUBJECT, struct.pack("<Q", self.number), 0.5))
            if "error" not in answer:
                self.acknowledged = self.number
                self.puts += 1

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Puts all the time, so that kills meet puts on their way."""
        thread = threading.Thread(target=self.work)
        thread.start()
        try:
            yield
        finally:
            self.is_over = True
            thread.join()

    def work(self) -> None:
        while not self.is_over:
            self.put()
            time.sleep(0.02)

    def check(self) -> None:
        """The last acknowledged number is there, or one that was on its way."""
        subject = f"$JS.API.DIRECT.GET.{self.STREAM}.{self.SUBJECT}"
        end = time.monotonic() + 30
        acknowledged = self.acknowledged
        while True:
            try:
                found = self.ask(subject, b"", 1.0)
                break
            except (OSError, ValueError, IndexError) as error:
                if time.monotonic() > end:
                    raise Fault(f"the engine does not answer: {error}") from error
                time.sleep(0.1)
        number = struct.unpack("<Q", found)[0] if len(found) == 8 else -1
        if not acknowledged <= number <= self.number:
            text = f"the engine has {found[:100]!r}, and had acknowledged {acknowledged}"
            raise Fault(text)


def check_state(path: Path) -> None:
    """A whole state of this fleet's prefixes: version, rows, check sum."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    total = 0xCBF29CE484222325
    for byte in data[:-8]:
        total = (total ^ byte) * 0x100000001B3 % 2**64
    if data[0] != 2 or total != struct.unpack("<Q", data[-8:])[0]:
        raise Fault(f"{path} is damaged")
    at = 29
    names = data[at]
    at += 1
    for _ in range(names):
        at += 1 + data[at]
    rows = struct.unpack_from("<I", data, at)[0]
    at += 4
    numbers = (names - 1) * names // 2 + names - 1
    for _ in range(rows):
        if data[at] != 4 or data[at + 1 : at + 4] not in PREFIXES:
            raise Fault(f"{path} speaks of {list(data[at + 1 : at + 4])}")
        at += 11 + 4 * numbers
    if at != len(data) - 8:
        raise Fault(f"{path} has other rows than it says")


class Fleet:
    """All processes."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, port: int) -> None:
        self.folder, self.port = folder, port
        enter = stack.enter_context
        self.a, self.b = hosts = [fleet_demo.Host(name, folder) for name in ("a", "b")]
        for host in hosts:
            enter(host.there("0.05"))
        config = folder / "server.conf"
        config.write_text(
            f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/data" }}\n'
        )
        self.witness = Witness(port)
        self.parts: dict[str, Part] = {}
        stack.callback(self.end)
        self.add("engine", ["nats-server", "-c", str(config)], self.answers)
        for host in hosts:
            self.settle(host)
        self.parts["engine"].wait()
        demo.run(fleet_demo.AGENT, "--config", str(self.a.folder / "fleet.toml"), "init")
        for host in hosts:
            status = host.agent / "status.json"
            words = [
                fleet_demo.AGENT,
                "--config",
                str(host.folder / "fleet.toml"),
                "run",
            ]
            self.add(f"agent {host.name}", words, status.exists)
            self.parts[f"agent {host.name}"].wait()
            words = ["nsenter", f"--net=/run/netns/{host.near}", demo.TCPILOT, "run"]
            words += [
                "--cgroup",
                str(host.cgroup),
                "--state",
                str(host.folder / "state.db"),
            ]
            words += [*host.socket, "--config", str(host.folder / "tcpilot.toml")]
            self.add(f"daemon {host.name}", words, lambda host=host: self.is_up(host))
            self.parts[f"daemon {host.name}"].wait()
        self.clients = [enter(self.client(host)) for host in hosts]

    def add(self, name: str, words: list[str], ready: Callable[[], bool]) -> None:
        log = self.folder / f"{name.replace(' ', '-')}.log"
        self.parts[name] = Part(words, log, ready)

    def settle(self, host) -> None:
        host.folder.joinpath("tcpilot.toml").write_text(
            fleet_demo.CONFIG + f'[fleet]\ndir = "{host.agent}"\nsay_every_s = 1\n'
        )
        host.folder.joinpath("fleet.toml").write_text(
            f'store = "nats://127.0.0.1:{self.port}"\nplace = "here"\nhost = "{host.name}"\n'
            f'state_dir = "{host.agent}"\ninsecure = true\nsay_every_s = 0.5\nhear_every_s = 0.5\n'
            "timeout_s = 1\n"
        )

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def is_up(self, host) -> bool:
        words = [demo.TCPILOT, "status", *host.socket]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    @contextlib.contextmanager
    def client(self, host):
        """An echo server far away, and a client in the daemon's cgroup, connected to it."""
        with demo.running(*inside(host.far, sys.executable, "-c", ECHO)) as server:
            server.stdout.readline()

            def join() -> None:
                (host.cgroup / "cgroup.procs").write_text("0")

            words = inside(host.near, sys.executable, "-c", CLIENT, f"{fleet_demo.CLEAN}.2")
            with demo.running(*words, stdin=subprocess.PIPE, preexec_fn=join) as client:
                yield client

    def check_connections(self, number: int) -> None:
        for client in self.clients:
            for kind in ("old", "new"):
                client.stdin.write(f"{kind} {number}\n")
                client.stdin.flush()
            for kind in ("old", "new"):
                said = client.stdout.readline().strip()
                if said != "good":
                    raise Fault(f"the {kind} connection: {said or 'its client has ended'}")

    def check_states(self) -> None:
        for host in (self.a, self.b):
            for kind in ("own", "heard"):
                check_state(host.agent / kind / "default.state")

    def check_end(self) -> None:
        """All is there again: b hears what a says now, and nothing was ever refused."""
        for part in self.parts.values():
            part.wait()
        heard = self.b.agent / "heard" / "default.state"
        since = time.time()
        fleet_demo.wait("b's agent to hear again", lambda: heard.stat().st_mtime > since)
        fleet_demo.wait("b to hear two groups", lambda: self.b.fleet()["groups_heard"] >= 2)
        for host in (self.a, self.b):
            if refused := host.fleet()["refused"]:
                raise Fault(f"daemon {host.name} refused {refused}")
            status = json.loads((host.agent / "status.json").read_text())
            if refused := status["heard"]["refused"]:
                raise Fault(f"agent {host.name} refused {refused}")

    def end(self) -> None:
        for part in self.parts.values():
            part.end()


def piece(options: argparse.Namespace, counts: dict) -> None:
    rng = random.Random(options.seed + counts["all"])
    with (
        tempfile.TemporaryDirectory(prefix=f"{NAME}-") as folder,
        contextlib.ExitStack() as stack,
    ):
        fleet = Fleet(Path(folder), stack, 20_000 + os.getpid() % 10_000)
        for prefix in (fleet_demo.LOSSY, fleet_demo.CLEAN):
            for number in (2, 3):
                fleet.a.upload(f"{prefix}.{number}", 10, 200_000)
        fleet_demo.wait("b to hear two groups", lambda: fleet.b.fleet()["groups_heard"] >= 2)
        # The daemon saves each minute and at its end: now all of it is saved.
        fleet.parts["daemon a"].restart()
        say("learned; killing")
        traffic = stack.enter_context(background(fleet.a))
        stack.enter_context(fleet.witness.at_work())
        for _ in range(min(options.kills, options.total - counts["all"])):
            name = rng.choice(PARTS)
            part = fleet.parts[name]
            part.kill()
            part.start()
            counts[name] += 1
            counts["all"] += 1
            if name == "engine":
                fleet.witness.check()
            time.sleep(rng.uniform(0, 2 * GAP_S))
            fleet.check_connections(counts["all"])
            fleet.check_states()
            if traffic.poll() is not None:
                raise Fault("the uploads have ended")
        fleet.check_end()
        fleet.witness.check()
        counts["acknowledged"] += fleet.witness.puts


@contextlib.contextmanager
def background(host):
    """Uploads without an end, so that a always has news."""

    def join() -> None:
        (host.cgroup / "cgroup.procs").write_text("0")

    words = f"bulk --to {fleet_demo.LOSSY}.2:{fleet_demo.PORT} --bytes 60000 --count 100000"
    words = [fleet_demo.FLOWGEN, *words.split(), "--gap-ms", "100", "--wait", "120"]
    silent = ["sh", "-c", 'exec "$@" >/dev/null', "sh", *inside(host.near, *words)]
    with demo.running(*silent, preexec_fn=join) as process:
        yield process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--kills", type=int, default=250, metavar="N", help="of this piece (250)")
    add("--total", type=int, default=1000, metavar="N", help="of all pieces (1000)")
    add("--seed", type=int, default=1, metavar="N")
    add(
        "--binaries",
        type=Path,
        default=demo.TARGET,
        metavar="FOLDER",
        help="(target/release)",
    )
    options = parser.parse_args()
    for module, name in (
        (demo, "TCPILOT"),
        (fleet_demo, "AGENT"),
        (fleet_demo, "FLOWGEN"),
        (fleet_demo, "PATHRELAY"),
    ):
        file = options.binaries.resolve() / Path(getattr(module, name)).name
        if not file.exists():
            return fail(f"{file} is not there; run: make release")
        setattr(module, name, str(file))
    fleet_demo.TCPILOT = demo.TCPILOT
    if os.geteuid() != 0:
        return fail("namespaces need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    counts = dict.fromkeys(("all", "acknowledged", *PARTS), 0)
    if COUNTS.exists():
        counts |= json.loads(COUNTS.read_text())
    start, before = time.monotonic(), counts["all"]
    try:
        piece(options, counts)
    except Fault as fault:
        return fail(f"after {counts['all']} kills: {fault}")
    finally:
        COUNTS.write_text(json.dumps(counts, indent=1) + "\n")
    done = counts["all"] - before
    took_s = time.monotonic() - start
    say(f"{done} kills in {took_s:.0f} s, {counts['all']} of {options.total}: {counts}")
    return 0


def fail(text: str) -> int:
    print(f"fleet-kills: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
