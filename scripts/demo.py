#!/usr/bin/env python3
"""tcpilot learning a bad link, to look at: no traffic of this host is touched.

Three network namespaces, client - router - server; the router loses, delays and limits packets to
the server.  First some uploads with the kernel's default, then a hundred while tcpilot steers the
client, whose table of paths is shown as it converges; then why, and the comparison.

Needs root and a kernel with netem.  Without one, it runs itself in a virtual machine. Everything it
makes is named tcpilot-demo, and is removed at the end, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release"
TCPILOT, FLOWGEN = str(TARGET / "tcpilot"), str(TARGET / "flowgen")
CLIENT, ROUTER, SERVER = NAMESPACES = "tcpilot-demo", "tcpilot-demo-router", "tcpilot-demo-server"
SERVER_ADDRESS = "10.99.2.2"
PORT = "5201"
SCREEN = "TCPILOT_DEMO_COLUMNS"  # set where a terminal is at the other end of the pipe
CONFIG = "[effect]\nhold_out_percent = 0\n"  # no part of a demonstration keeps the default
SEGMENT = 1448  # bytes of data in a packet of Ethernet with time stamps
REDRAW_EVERY_S = 0.5
PLAIN_TABLES_AT = (5, 10, 20, 50)  # where there is no terminal to redraw


def main() -> int:
    options = parse()
    for program in (TCPILOT, FLOWGEN):
        if not Path(program).exists():
            return fail(f"{program} is not there; run: make demo")
    if options.here or has_netem():
        if os.geteuid() != 0:
            return fail("namespaces need root; run: sudo make demo")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        demo(options)
        return 0
    return in_machine(options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--connections", type=int, default=100, metavar="N", help="with tcpilot (100)")
    add("--before", type=int, default=10, metavar="N", help="without it (10)")
    add("--bytes", type=int, default=1_000_000, metavar="N", help="of each upload (1000000)")
    add("--loss", default="5%", help="on the way to the server (5%%)")
    add("--delay", default="20ms", help="likewise (20ms)")
    add("--rate", default="20mbit", help="likewise (20mbit)")
    add("--kernel", default="6.12", help="of the virtual machine (6.12)")
    add("--json", type=Path, metavar="FILE", help="keep what each connection did")
    add("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def fail(message: str) -> int:
    print(f"demo: {message}", file=sys.stderr)
    return 1


# ---- in a virtual machine ----


def has_netem() -> bool:
    """Whether this kernel has netem: tried in a namespace of its own."""
    attempt = "tc qdisc add dev lo root netem delay 1ms"
    return (
        subprocess.run(["unshare", "--net", "sh", "-c", attempt], capture_output=True).returncode
        == 0
    )


def in_machine(options: argparse.Namespace) -> int:
    """This script again, under a suitable kernel, in virtual time."""
    say(
        "this kernel has no netem, or we are not root: using a virtual machine (kernel "
        f"{options.kernel}, emulated; what follows takes about three minutes)"
    )
    subprocess.run([ROOT / "scripts" / "setup", "lab"], check=True)
    modules = ("veth", "sch_netem", "tcp_bbr", "tcp_htcp", "tcp_dctcp")
    command = [str(ROOT / ".cache/venv/bin/python"), "-m", "tcplab.vm", "run"]
    command += ["--kernel", options.kernel, "--virtual-time"]
    command += [word for module in modules for word in ("--module", module)]
    command += ["--env", f"CARGO_TARGET_DIR={TARGET.parent}"]
    if sys.stdout.isatty():
        command += ["--env", f"{SCREEN}={shutil.get_terminal_size().columns}"]
    if options.json:
        options.json.touch()
        command += ["--rw", str(options.json.resolve().parent)]
    command += ["--", sys.executable, __file__, "--here", *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT).returncode


# ---- the network ----


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"demo: {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def ip(*words: str) -> str:
    return run("ip", *words)


def inside(namespace: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *words]


@contextlib.contextmanager
def network(options: argparse.Namespace) -> Iterator[None]:
    remove_namespaces()  # of a killed run
    try:
        for namespace in NAMESPACES:
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        cable(CLIENT, "10.99.1.2", ROUTER, "10.99.1.1", "left")
        cable(SERVER, SERVER_ADDRESS, ROUTER, "10.99.2.1", "right")
        run(*inside(ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1"))
        run(*inside(CLIENT, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=cubic"))
        # Fresh measures for each connection, as for new hosts of one network.
        run(*inside(CLIENT, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"))
        run(
            *inside(
                ROUTER,
                "tc",
                "qdisc",
                "add",
                "dev",
                "right",
                "root",
                "netem",
                "loss",
                options.loss,
                "delay",
                options.delay,
                "rate",
                options.rate,
                "limit",
                "1000",
            )
        )
        yield
    finally:
        remove_namespaces()


def cable(end: str, end_address: str, router: str, router_address: str, name: str) -> None:
    """A veth pair between an end and the router; each packet is a packet: no offloads."""
    ip("-n", router, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", end)
    for namespace, device, address in ((end, "eth0", end_address), (router, name, router_address)):
        ip("-n", namespace, "address", "add", f"{address}/24", "dev", device)
        ip("-n", namespace, "link", "set", device, "up", "gso_max_segs", "1")
    ip("-n", end, "route", "add", "default", "via", router_address)


def remove_namespaces() -> None:
    there = ip("netns", "list").split()
    for namespace in NAMESPACES:
        if namespace in there:
            ip("netns", "delete", namespace)


# ---- processes ----


@contextlib.contextmanager
def running(*words: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def own_cgroup() -> Iterator[Path]:
    """A cgroup for the client's processes, so tcpilot steers nothing else on this host."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    root = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    if not root:
        raise SystemExit("demo: cgroup v2 is not mounted")
    cgroup = Path(root) / "tcpilot-demo"
    cgroup.mkdir(exist_ok=True)
    try:
        yield cgroup
    finally:
        cgroup.rmdir()


def uploads(
    cgroup: Path, count: int, size: int
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """Starts `count` uploads, one after the other; a line of JSON for each."""

    def join() -> None:
        (cgroup / "cgroup.procs").write_text("0")

    words = inside(
        CLIENT,
        FLOWGEN,
        "bulk",
        "--to",
        f"{SERVER_ADDRESS}:{PORT}",
        "--bytes",
        str(size),
        "--count",
        str(count),
        "--gap-ms",
        "20",
        "--wait",
        "120",
    )
    return running(*words, preexec_fn=join)


def results(process: subprocess.Popen[str]) -> Iterator[dict]:
    for line in process.stdout:
        result = json.loads(line)
        if not result.get("summary"):
            yield result


# ---- what is shown ----


def say(text: str = "") -> None:
    print(text, flush=True)


class Display:
    """A text drawn over its predecessor on a terminal; elsewhere only at some points."""

    def __init__(self) -> None:
        self.columns = int(os.environ.get(SCREEN, "0"))
        if not self.columns and sys.stdout.isatty():
            self.columns = shutil.get_terminal_size().columns
        self.height = 0
        self.drawn_at = 0.0

    def is_due(self, index: int, last: bool) -> bool:
        if last or not self.columns:
            return last or index in PLAIN_TABLES_AT
        return time.monotonic() - self.drawn_at >= REDRAW_EVERY_S

    def draw(self, text: str) -> None:
        lines = text.splitlines()
        if self.columns:
            lines = [line[: self.columns - 1] for line in lines]
            up = f"\x1b[{self.height}A\r\x1b[J" if self.height else ""
            print(up + "\n".join(lines), flush=True)
        else:
            print(text, flush=True)
        self.height = len(lines)
        self.drawn_at = time.monotonic()


def mbit(results: list[dict]) -> float:
    """The median goodput, measured at the receiver."""
    return statistics.median(r["goodput_bits_per_s"] for r in results) / 1e6


def again(results: list[dict]) -> float:
    """Retransmitted segments, in percent of the data's segments."""
    segments = sum(-(-r["bytes"] // SEGMENT) for r in results)
    return 100 * sum(r["retransmits"] for r in results) / segments


def bar(value: float, most: float, width: int = 30) -> str:
    return "#" * max(1, round(value / most * width))


# ---- the story ----


def demo(options: argparse.Namespace) -> None:
    say(
        f"A link to {SERVER_ADDRESS}: {options.rate}, {options.delay} delay, {options.loss} loss.\n"
    )
    serve = inside(SERVER, FLOWGEN, "serve", "--listen", f"[::]:{PORT}")
    with (
        tempfile.TemporaryDirectory(prefix="tcpilot-demo-") as folder,
        network(options),
        own_cgroup() as cgroup,
        running(*serve) as server,
    ):
        server.stdout.readline()  # it listens
        before = measure_before(options, cgroup)
        after, why = measure_with_tcpilot(options, cgroup, Path(folder))
    say(why)
    compare(before, after[-options.before :])
    if options.json:
        document = {
            "options": {k: str(v) for k, v in vars(options).items() if k != "here"},
            "kernel": os.uname().release,
            "before": before,
            "with_tcpilot": after,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def measure_before(options: argparse.Namespace, cgroup: Path) -> list[dict]:
    with uploads(cgroup, options.before, options.bytes) as process:
        before = list(results(process))
    say(
        f"Without tcpilot, {len(before)} uploads of {options.bytes / 1e6:g} MB with the kernel's "
        f"default, {before[0]['cc_end']}: median {mbit(before):.1f} Mbit/s, "
        f"{again(before):.1f} % retransmitted.\n"
    )
    return before


def measure_with_tcpilot(
    options: argparse.Namespace, cgroup: Path, folder: Path
) -> tuple[list[dict], str]:
    socket = ("--socket", str(folder / "tcpilot.sock"))
    config = folder / "tcpilot.toml"
    config.write_text(CONFIG)
    daemon = (TCPILOT, "run", "--cgroup", str(cgroup), "--state", str(folder / "state.db"), *socket)
    daemon += ("--config", str(config))
    environment = {**os.environ, "RUST_LOG": "error"}
    with running(*daemon, env=environment):
        wait_until_it_answers(socket)
        say(f"Now tcpilot steers; {options.connections} uploads more:\n")
        display, after = Display(), []
        with uploads(cgroup, options.connections, options.bytes) as process:
            for result in results(process):
                after.append(result)
                last = len(after) == options.connections
                if display.is_due(len(after), last):
                    display.draw(progress(after, options) + run(TCPILOT, "paths", *socket))
        say()
        return after, run(TCPILOT, "explain", SERVER_ADDRESS, *socket)


def wait_until_it_answers(socket: tuple[str, str]) -> None:
    """It attaches before it answers."""
    for _ in range(100):
        if subprocess.run([TCPILOT, "status", *socket], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise SystemExit("demo: tcpilot did not start; its messages are above")


def progress(after: list[dict], options: argparse.Namespace) -> str:
    newest = after[-1]
    names = " then ".join(dict.fromkeys((newest["cc_start"], newest["cc_end"])))
    return f"upload {len(after)} of {options.connections}: {names}, {mbit([newest]):.1f} Mbit/s\n\n"


def compare(before: list[dict], after: list[dict]) -> None:
    old, new = mbit(before), mbit(after)
    most = max(old, new)
    say("Median goodput, and segments sent again, of 100 that the data took:")
    for name, median, results in (
        ("without tcpilot", old, before),
        (f"the last {len(after)} with it", new, after),
    ):
        say(f"  {name:<20} {median:6.1f} Mbit/s  {again(results):5.1f}  {bar(median, most)}")
    say(f"  {new / old:.1f} times. tcpilot has stopped; nothing of it is left on this host.")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
