#!/usr/bin/env python3
"""Draws the manual's pictures of `tcpilot top` and of the report's page, from a daemon at work.

    .cache/venv/bin/python scripts/screens.py [--seconds 300] [--binaries target/release]

Six groups of addresses lie behind one link; three of them lose packets. Blocks last seconds, so the
report has pairs. Needs root, chromium, and the release build; makes two network namespaces and a
cgroup, and removes them. Writes docs/use/top.svg and docs/use/report.png.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import ExitStack
from fcntl import ioctl
from html import escape
from pathlib import Path

from playwright.sync_api import sync_playwright
from scrape import PORT, ROOT, cgroup, namespaces, process, run, until

DOCS = ROOT / "docs" / "use"
# Address, delay in ms, share of packets lost. All are for documentation or benchmarks.
PEERS = (
    ("192.0.2.7", 5, 0.0),
    ("198.51.100.20", 30, 0.03),
    ("203.0.113.9", 20, 0.03),
    ("198.18.1.4", 10, 0.0),
    ("198.18.2.5", 40, 0.02),
    ("198.19.3.8", 20, 0.0),
)
LINK = "tbf rate 40mbit burst 15kb latency 50ms"
CONFIG = '[effect]\nhold_out = "block"\nblock_s = 4\nsettle_s = 1\nconnections_min = 2\n'
BYTES = 150_000
COLUMNS, ROWS = 110, 30
LETTER, LINE, EDGE = 7.8, 17, 14
PAGE = {"width": 980, "height": 930}  # down to the first plot


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release")
    options = parser.parse_args()
    binaries = options.binaries.resolve()
    name = f"tp{os.getpid()}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=name)))
        near, far = stack.enter_context(namespaces(name))
        group = stack.enter_context(cgroup(name))
        link(stack, binaries, folder, near, far)
        (folder / "tcpilot.toml").write_text(CONFIG)
        daemon = f"nsenter --net=/run/netns/{near} {binaries}/tcpilot run --cgroup {group}"
        daemon += f" --config {folder}/tcpilot.toml --state {folder}/state.db"
        daemon += f" --socket {folder}/sock"
        stack.enter_context(process(daemon.split(), stderr=subprocess.DEVNULL))
        until("the daemon answers", lambda: (folder / "sock").exists())
        asked = [f"{binaries}/tcpilot"], ["--socket", f"{folder}/sock"]
        subprocess.run([*asked[0], "report", "--trial", "1h", *asked[1]], check=True)
        for address, _, _ in PEERS:
            upload = f"ip netns exec {near} {binaries}/flowgen bulk --to {address}:{PORT}"
            upload += f" --bytes {BYTES} --count 1000000 --gap-ms 50"
            words = ["sh", "-c", f"echo $$ >{group}/cgroup.procs; exec {upload}"]
            stack.enter_context(process(words, stdout=subprocess.DEVNULL))
        time.sleep(options.seconds)
        (DOCS / "top.svg").write_text(svg(screen([*asked[0], "top", *asked[1]])))
        page = folder / "report.html"
        subprocess.run([*asked[0], "report", "--html", page, *asked[1]], check=True)
        photograph(page, DOCS / "report.png")


def link(stack: ExitStack, binaries: Path, folder: Path, near: str, far: str) -> None:
    """The way to the peers, and their server."""
    run(f"ip -n {near} link del eth0")  # a card without traffic; the devices in use count then
    # The usual default if this host lets a namespace have it, else the one that any may have.
    default = "ip netns exec {} sysctl -qw net.ipv4.tcp_congestion_control={}"
    if subprocess.run(default.format(near, "cubic").split(), stderr=subprocess.DEVNULL).returncode:
        run(default.format(near, "reno"))
    lanes = folder / "lanes"
    lanes.write_text("".join(f"{address} {ms} {loss}\n" for address, ms, loss in PEERS))
    relay = f"{binaries}/pathrelay --link near={near}/wan,far={far}/wan,back_ms=1,seed=5"
    relay += f",destinations={lanes}"
    running = process(relay.split(), stdout=subprocess.PIPE, text=True)
    ready(stack.enter_context(running))
    run(f"ip -n {near} addr add 10.78.0.1/24 dev wan")
    for one in (near, far):
        run(f"ip -n {one} link set wan up gso_max_segs 1")
    for address, _, _ in PEERS:
        run(f"ip -n {far} addr add {address}/32 dev wan")
        run(f"ip -n {near} route add {address}/32 dev wan src 10.78.0.1")
    run(f"ip -n {far} route add 10.78.0.0/24 dev wan")
    run(f"tc -n {near} qdisc add dev wan root {LINK}")
    serve = f"ip netns exec {far} {binaries}/flowgen serve --listen [::]:{PORT}"
    ready(stack.enter_context(process(serve.split(), stdout=subprocess.PIPE, text=True)))


def ready(child: subprocess.Popen) -> None:
    if not child.stdout.readline():
        sys.exit(f"screens: {child.args[0]} did not start")


def screen(command: list[str]) -> list[str]:
    """A program's lines on a terminal after three seconds; its key ends it."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.kill(child, signal.SIGWINCH)
    written, end = b"", time.monotonic() + 3
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            written += os.read(terminal, 65536)
    os.write(terminal, b"q")
    os.waitpid(child, 0)
    # Each screen begins in the corner, and the last may not be whole.
    whole = written.decode().split("\x1b[1;1H")[-2]
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", whole).splitlines()
    return [line.rstrip() for line in lines]


def svg(lines: list[str]) -> str:
    """A terminal with these lines. Their lengths are fixed, so columns align in any font."""
    width, height = 2 * EDGE + LETTER * COLUMNS, 2 * EDGE + LINE * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" role="img">',
        "<title>tcpilot top</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#1b1f24"/>',
    ]
    for row, line in enumerate(lines):
        if line:
            parts.append(
                f'<text x="{EDGE}" y="{EDGE + LINE * row + 12}" fill="#d8dee4" '
                f'xml:space="preserve" textLength="{LETTER * len(line):.0f}">{escape(line)}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def photograph(page: Path, to: Path) -> None:
    program = shutil.which("chromium") or sys.exit("screens: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        window = browser.new_page(viewport=PAGE)
        window.goto(page.as_uri())
        window.screenshot(path=to)
        browser.close()


if __name__ == "__main__":
    main()
