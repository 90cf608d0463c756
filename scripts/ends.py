#!/usr/bin/env python3
"""Whether a capture at either end of a path names a flow as a live watch at its queue does.

    scripts/ends.py [--binaries target/release] [--seconds 45] > table

For each cell: a sender, a router whose device has the queue, a path with delay (pathrelay), a
receiver.  A live watch looks at the router's device, and tcpdump captures at the sender and at the
receiver.  Prints a table of the flows' groups and names.  Needs root and tcpdump: it makes four
network namespaces, and removes them.
"""

import argparse
import contextlib
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from scrape import PORT, ROOT, process, run, until

# Mbit/s, round trip in ms, the queue in bandwidth-delay products, algorithms.
PATHS = [(15, 45, 1.2), (8, 70, 0.8), (50, 25, 1.5), (25, 120, 3)]
CELLS = [(*path, [cc]) for path in PATHS for cc in ("reno", "cubic", "bbr")]
SHARED = (12, 80, 1.5)
PAIRS = [["cubic", "bbr"], ["reno", "cubic"], ["bbr", "bbr"], ["reno", "reno"]]
CELLS += [(*SHARED, pair) for pair in PAIRS]
GROUPS = {"reno": "loss", "cubic": "loss", "bbr": "model"}
VIEWS = ("live", "sender", "receiver")
FAR = "10.3.0.2"
SNAP_BYTES = 100
PIPED: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def inside(name: str, *words: object) -> list[str]:
    return ["ip", "netns", "exec", name, *map(str, words)]


def address(name: str, device: str, of: str) -> None:
    run(f"ip -n {name} addr add {of}/24 dev {device}")
    run(f"ip -n {name} link set {device} up")


def join(near: str, far: str, devices: tuple[str, str], net: str) -> None:
    run(f"ip link add {devices[0]} netns {near} type veth peer name {devices[1]} netns {far}")
    address(near, devices[0], f"{net}.1")
    address(far, devices[1], f"{net}.2")


def remove(names: list[str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def is_attached(watch: subprocess.Popen) -> bool:
    """Whether the watch has its four links."""
    texts = []
    for file in Path(f"/proc/{watch.pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            texts.append(file.read_text())
    return sum("link_type" in text for text in texts) == 4


@contextlib.contextmanager
def path(binaries: Path, rate: int, rtt_ms: int, queue: float) -> Iterator[list[str]]:
    """The namespaces: sender, router, the near end of the delay, receiver."""
    names = [f"tpends{number}" for number in range(4)]
    sender, router, middle, receiver = names
    remove(names)  # a killed run may have left them
    try:
        for name in names:
            run(f"ip netns add {name}")
            run(f"ip -n {name} link set lo up")
            subprocess.run(inside(name, "sysctl", "-qw", "net.ipv4.ip_forward=1"), check=True)
        join(sender, router, ("s0", "r0"), "10.1.0")
        join(router, middle, ("b0", "m0"), "10.2.0")
        half = f"delay_ms={rtt_ms / 2},back_ms={rtt_ms / 2}"
        relay = [
            str(binaries / "pathrelay"),
            "--link",
            f"near={middle}/t0,far={receiver}/t0,{half}",
        ]
        with process(relay, **PIPED) as relaying:
            assert relaying.stdout.readline() == "ready\n"
            address(receiver, "t0", FAR)
            address(middle, "t0", "10.3.0.1")
            run(f"ip -n {sender} route add default via 10.1.0.2")
            run(f"ip -n {router} route add 10.3.0.0/24 via 10.2.0.2")
            run(f"ip -n {middle} route add 10.1.0.0/24 via 10.2.0.1")
            run(f"ip -n {receiver} route add default via 10.3.0.1")
            limit = int(rate * 125 * rtt_ms * queue)
            tbf = f"tbf rate {rate}mbit burst 6kb limit {limit}"
            subprocess.run(
                inside(router, "tc", "qdisc", "add", "dev", "b0", "root", *tbf.split()), check=True
            )
            yield names
    finally:
        remove(names)


def flows(lines: str) -> dict[str, dict]:
    """The flows to the server, by their port."""
    found = [json.loads(line) for line in lines.splitlines()]
    sent = [
        flow
        for flow in found
        if flow["type"] == "flow" and flow["flow"].endswith(f"> {FAR}:{PORT}")
    ]
    return {flow["flow"].split(" > ")[0].rpartition(":")[2]: flow for flow in sent}


def cell(binaries: Path, of: tuple[int, int, float, list[str]], seconds: int) -> Iterator[dict]:
    """Each view's verdict on each flow."""
    *shape, algorithms = of
    tcpilot, flowgen = str(binaries / "tcpilot"), str(binaries / "flowgen")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as all_of:
        sender, router, _, receiver = all_of.enter_context(path(binaries, *shape))
        serve = inside(receiver, flowgen, "serve", "--listen", f"{FAR}:{PORT}")
        all_of.enter_context(process(serve, **QUIET))
        with contextlib.ExitStack() as captures:
            for name, device in ((sender, "s0"), (receiver, "t0")):
                file = Path(folder, name)
                words = ["tcpdump", "-i", device, "-s", SNAP_BYTES, "-B", 8192, "-w", file, "tcp"]
                captures.enter_context(process(inside(name, *words), **QUIET))
                until("tcpdump captures", file.exists)
            words = [tcpilot, "watch", "b0", "--once", "--json", "--for", seconds + 4]
            watch = subprocess.Popen(inside(router, *words), **PIPED)
            until("the watch is attached", partial(is_attached, watch))
            bulk = [flowgen, "bulk", "--to", f"{FAR}:{PORT}", "--seconds", seconds, "--cc"]
            started = [subprocess.Popen(inside(sender, *bulk, cc), **PIPED) for cc in algorithms]
            sent = [json.loads(one.communicate()[0].splitlines()[0]) for one in started]
            live = watch.communicate()[0]
        views = {"live": flows(live)}
        for view, name in (("sender", sender), ("receiver", receiver)):
            words = [tcpilot, "watch", "--json", "--read", str(Path(folder, name))]
            views[view] = flows(subprocess.run(words, check=True, **PIPED).stdout)
        for one in sent:
            port = one["local"].rpartition(":")[2]
            yield {"cc": one["cc_end"]} | {view: views[view].get(port) for view in VIEWS}


def said(flow: dict | None) -> str:
    if not flow:
        return "not seen"
    if not flow["algorithm"] or flow["group"] == "unknown":
        return f"{flow['group']} ({flow['why']})"
    return f"{flow['group']}, {flow['algorithm']} {flow['confidence']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release")
    parser.add_argument("--seconds", type=int, default=45)
    given = parser.parse_args()
    right: Counter[tuple[str, str]] = Counter()
    count = 0
    print("| Mbit/s, ms, BDP | algorithm | live, at the queue | at the sender | at the receiver |")
    print("|---|---|---|---|---|")
    for of in CELLS:
        for seen in cell(given.binaries.resolve(), of, given.seconds):
            count += 1
            shape = ", ".join(str(number) for number in of[:3])
            beside = f" of {' and '.join(of[3])}" if len(of[3]) > 1 else ""
            views = [said(seen[view]) for view in VIEWS]
            print(f"| {shape} | {seen['cc']}{beside} | {' | '.join(views)} |", flush=True)
            for view in VIEWS:
                flow = seen[view] or {"group": "not seen", "algorithm": None}
                is_right = flow["group"] == GROUPS[seen["cc"]]
                is_open = flow["group"] in ("unknown", "mouse", "ant", "not seen")
                right[view, "group"] += is_right
                right[view, "wrong"] += not is_right and not is_open
                right[view, "name"] += is_right and flow["algorithm"] == seen["cc"]
    print()
    print(f"| of {count} flows | group right | group wrong | name right, too |")
    print("|---|---|---|---|")
    for view in VIEWS:
        counts = [str(right[view, what]) for what in ("group", "wrong", "name")]
        print(f"| {view} | {' | '.join(counts)} |")


if __name__ == "__main__":
    main()
