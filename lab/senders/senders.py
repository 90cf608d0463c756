#!/usr/bin/env python3
"""How often `tcpilot watch` is right about the senders of other people's programs.

    python lab/senders/senders.py plan                       # the flows and paths, drawn by a seed
    python lab/senders/senders.py run --binaries DIR OUT     # as root: OUT/CELL.jsonl and the rest
    python lab/senders/senders.py keep OUT FILE              # all cells, a line of JSON each
    python lab/senders/senders.py table FILE                 # Markdown

nginx and curl (HTTP/1.1 and HTTP/2 over TLS), rsync, iperf3, QUIC by aioquic and by quic-go. They
send from a host over r0, r1 and r2 to another. The bottleneck is a FIFO at a device of r1, where a
`tcpilot watch` with default options runs. A part of the delay, drawn at random, lies before it.

It needs nginx, curl, rsync, iperf3, openssl, Go, and the Python package aioquic. All runs in
namespaces that end with their first process.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMMAND = "python lab/senders/senders.py run OUT"
SEED = 4747
SECONDS = 40
GROUP_OF = {"reno": "loss", "cubic": "loss", "bbr": "model"}
CONTROLS = tuple(GROUP_OF)
CONTROLLED = ("loss", "delay", "loss-delay", "model")
BULK = ("http1", "http2", "rsync", "iperf3")
LIMITED = ("curl-limit", "nginx-limit", "iperf3-rate", "on-off")
QUIC = (("aioquic", "reno"), ("aioquic", "cubic"), ("quic-go", "reno"))
"""quic-go has one algorithm, Reno with HyStart; aioquic has Reno and CUBIC."""
TITLES = {
    "http1": "nginx, HTTP/1.1, TLS",
    "http2": "nginx, HTTP/2, TLS",
    "rsync": "rsync's daemon",
    "iperf3": "iperf3",
    "aioquic": "QUIC, aioquic",
    "quic-go": "QUIC, quic-go",
    "curl-limit": "curl --limit-rate",
    "nginx-limit": "nginx limit_rate",
    "iperf3-rate": "iperf3 -b",
    "on-off": "requests with pauses (curl --rate)",
}
RATES_MBIT, RTTS_MS, QUEUES_BDP = (2.0, 100.0), (10.0, 250.0), (0.3, 4.0)
FAST_MBIT = {"aioquic": 10.0, "quic-go": 40.0}
"""Beyond that such a sender's processor would be the bottleneck."""
LEAST_PACKETS, PACKET_BYTES = 5, 1514
LATE_US = 1000
"""So late the relay may be for its packets' 99th percentile, else the cell does not count."""
PORT = 8000
SENDER = "10.1.0.1"


def receiver(port: int) -> str:
    """Each flow has a receiver's address of its own, and by its route its algorithm: a server's
    connections do not keep that of their listener."""
    return f"10.3.0.{2 + port - PORT}"


@dataclass(frozen=True)
class Flow:
    """A program of the sender; `share` is its part of the link if something limits it."""

    kind: str
    cc: str
    start_s: float
    share: float = 1.0
    period_s: int = 0


@dataclass(frozen=True)
class Cell:
    """A path, and the flows on it."""

    name: str
    rate_mbit: float
    rtt_ms: float
    queue_bdp: float
    before: float
    """The part of the delay before the device."""
    flows: tuple[Flow, ...]

    @property
    def queue_packets(self) -> int:
        bdp = self.rate_mbit * 1e3 * self.rtt_ms / 8 / PACKET_BYTES
        return max(LEAST_PACKETS, round(self.queue_bdp * bdp))


def _log(draw: random.Random, bounds: tuple[float, float]) -> float:
    return float(f"{math.exp(draw.uniform(*map(math.log, bounds))):.3g}")


def _cell(name: str, draw: random.Random, kinds: Sequence[tuple[str, str]]) -> Cell:
    rates = (RATES_MBIT[0], min([RATES_MBIT[1], *(FAST_MBIT.get(k, 1e9) for k, _ in kinds)]))
    rate_mbit, rtt_ms, queue = _log(draw, rates), _log(draw, RTTS_MS), _log(draw, QUEUES_BDP)
    before = round(draw.random(), 2)
    flows = []
    for kind, cc in kinds:
        start_s = round(draw.uniform(0, 3), 1)
        share = round(draw.uniform(0.2, 0.8) / len(kinds), 2) if kind in LIMITED else 1.0
        period_s = draw.choice((2, 3, 4, 5, 6)) if kind == "on-off" else 0
        flows.append(Flow(kind, cc, start_s, share, period_s))
    return Cell(name, rate_mbit, rtt_ms, queue, before, tuple(flows))


def _dealt(draw: random.Random, kinds: list[tuple[str, str]], most: int) -> Iterator[Any]:
    draw.shuffle(kinds)
    while kinds:
        count = draw.randint(1, most)
        yield kinds[:count]
        del kinds[:count]


def plan(seed: int = SEED) -> list[Cell]:
    """All cells, drawn from this seed alone: nothing recorded has a part in it."""
    draw = random.Random(seed)
    bulk = [(kind, cc) for kind in BULK for cc in CONTROLS for _ in range(5)]
    limited = [(kind, cc) for kind in LIMITED for cc in CONTROLS for _ in range(2)]
    cells = [*_dealt(draw, bulk, 4), *_dealt(draw, limited, 3)]
    for kind, cc in QUIC:
        count = 4 if kind == "aioquic" else 8
        rival = ("http1", draw.choice(CONTROLS))
        cells += [[(kind, cc)] for _ in range(count // 2)]
        cells += [[(kind, cc), rival] for _ in range(count // 2)]
    found = []
    for number, kinds in enumerate(cells):
        words = " ".join(f"{kind}-{cc}" for kind, cc in kinds)
        found.append(_cell(f"{number:02}-{words}", draw, kinds))
    return found


# A cell, in namespaces of its own.


def sh(line: str) -> None:
    subprocess.run(line, shell=True, check=True, stdout=subprocess.DEVNULL)


@dataclass
class Place:
    """Where a cell runs, and its programs."""

    folder: Path
    binaries: Path
    quic_go: Path
    running: list[subprocess.Popen[bytes]]

    def start(self, netns: str, line: str, log: str) -> subprocess.Popen[bytes]:
        with Path(self.folder, log).open("wb") as out:
            words = ["ip", "netns", "exec", netns, "sh", "-c", f"exec {line}"]
            child = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, cwd=self.folder)
        self.running.append(child)
        return child


def _until(what: str, is_so: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise RuntimeError(f"waited in vain for {what}")


def _wire(cell: Cell, place: Place) -> subprocess.Popen[bytes]:
    """src - r0 ~ r1 - r2 ~ dst: - a pair of devices, ~ the relay, with the delay."""
    for name in ("src", "r0", "r1", "r2", "dst"):
        sh(f"ip netns add {name} && ip -n {name} link set lo up")
    sh("ip link add s0 netns src type veth peer name m0 netns r0")
    sh("ip link add b0 netns r1 type veth peer name n0 netns r2")
    before_ms, behind_ms = (cell.rtt_ms * x / 2 for x in (cell.before, 1 - cell.before))
    links = " ".join(
        f"--link=near={near},far={far},delay_ms={ms:.3f},back_ms={ms:.3f}"
        for near, far, ms in (("r0/z0", "r1/a0", before_ms), ("r2/f0", "dst/d0", behind_ms))
    )
    relay = place.start("src", f"{place.binaries}/pathrelay --memory-mb=64 {links}", "relay.json")
    _until("pathrelay", lambda: "ready" in Path(place.folder, "relay.json").read_text())
    # A wire carries single packets.
    for netns, device in (("r0", "z0"), ("r1", "a0"), ("r2", "f0"), ("dst", "d0")):
        sh(f"ip -n {netns} link set {device} gso_max_segs 1")
    addresses = (
        ("src", "s0", f"{SENDER}/24"),
        *(("r0", "m0", "10.1.0.2/24"), ("r0", "z0", "10.4.0.1/24"), ("r1", "a0", "10.4.0.2/24")),
        *(("r1", "b0", "10.2.0.1/24"), ("r2", "n0", "10.2.0.2/24"), ("r2", "f0", "10.3.0.1/24")),
        *(("dst", "d0", f"{receiver(PORT + i)}/24") for i in range(len(cell.flows))),
    )
    for netns, device, address in addresses:
        sh(f"ip -n {netns} link set {device} up && ip -n {netns} addr add {address} dev {device}")
    for netns in ("r0", "r1", "r2"):
        sh(f"ip netns exec {netns} sysctl -qw net.ipv4.ip_forward=1")
    sh("ip -n src route add default via 10.1.0.2 && ip -n dst route add default via 10.3.0.1")
    sh("ip -n r0 route add default via 10.4.0.2 && ip -n r2 route add default via 10.2.0.1")
    sh("ip -n r1 route add 10.1.0.0/24 via 10.4.0.1 && ip -n r1 route add 10.3.0.0/24 via 10.2.0.2")
    burst = max(round(cell.rate_mbit * 125), 2 * PACKET_BYTES)
    sh(
        f"tc -n r1 qdisc add dev b0 root handle 1: tbf rate {cell.rate_mbit}mbit burst {burst} "
        f"limit 100mb && tc -n r1 qdisc add dev b0 parent 1:1 pfifo limit {cell.queue_packets}"
    )
    for netns in ("src", "dst"):
        for key in ("rmem", "wmem"):
            sh(f"ip netns exec {netns} sysctl -qw net.ipv4.tcp_{key}='4096 1048576 33554432'")
        sh(f"ip netns exec {netns} sysctl -qw net.ipv4.tcp_no_metrics_save=1")
    return relay


_NGINX = """\
user root;
worker_processes 1;
daemon off;
pid {run}/pid;
events {{ worker_connections 64; }}
http {{
    sendfile on;
    tcp_nopush on;
    access_log off;
    keepalive_requests 100000;
    keepalive_timeout 600;
    client_body_temp_path {run}/body; proxy_temp_path {run}/proxy; fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi; scgi_temp_path {run}/scgi;
    server {{
        listen {port} ssl{http2};
        ssl_certificate /run/cert.pem;
        ssl_certificate_key /run/key.pem;
        root /run/files;
        {more}
    }}
}}
"""
_RSYNC = "use chroot = no\nuid = 0\ngid = 0\n[files]\npath = /run/files\n"


def _bits(cell: Cell, flow: Flow) -> float:
    return cell.rate_mbit * 1e6 * flow.share


def _serve(cell: Cell, flow: Flow, port: int, place: Place) -> None:
    run = Path(f"/run/{port}")
    run.mkdir()
    if flow.kind in ("http1", "http2", "curl-limit", "nginx-limit", "on-off"):
        more = f"limit_rate {round(_bits(cell, flow) / 8)};" if flow.kind == "nginx-limit" else ""
        http2 = " http2" if flow.kind == "http2" else ""
        text = _NGINX.format(run=run, port=port, http2=http2, more=more)
        Path(run, "nginx.conf").write_text(text)
        line = f"nginx -e stderr -p {run} -c {run}/nginx.conf"
    elif flow.kind == "rsync":
        Path(run, "conf").write_text(_RSYNC)
        line = f"rsync --daemon --no-detach --config={run}/conf --port={port}"
    elif flow.kind.startswith("iperf3"):
        line = f"iperf3 -s -p {port}"
    elif flow.kind == "aioquic":
        words = f"serve {SENDER} {port} {flow.cc} /run/cert.pem /run/key.pem"
        line = f"{sys.executable} {HERE / 'quic_aio.py'} {words}"
    else:
        line = f"{place.quic_go} serve {SENDER}:{port} /run/cert.pem /run/key.pem"
    sh(f"ip -n src route add {receiver(port)} via 10.1.0.2 congctl {flow.cc}")
    place.start("src", line, f"server-{port}.log")
    kind = "-u" if flow.kind in dict(QUIC) else "-t"
    listening = f"ip netns exec src ss -Hln {kind} sport = :{port}"
    _until(
        f"{flow.kind} to listen",
        lambda: bool(subprocess.run(listening.split(), capture_output=True).stdout),
    )


def _fetch(cell: Cell, flow: Flow, port: int, seconds: float, place: Place) -> None:
    own = receiver(port)
    curl = f"curl --disable -sSk --interface {own} --max-time {seconds:.1f} -o /dev/null"
    url = f"https://{SENDER}:{port}"
    if flow.kind in ("http1", "nginx-limit"):
        line = f"{curl} --http1.1 {url}/endless"
    elif flow.kind == "http2":
        line = f"{curl} --http2 {url}/endless"
    elif flow.kind == "curl-limit":
        line = f"{curl} --http1.1 --limit-rate {round(_bits(cell, flow) / 8)} {url}/endless"
    elif flow.kind == "on-off":
        size = round(_bits(cell, flow) / 8 * flow.period_s)
        Path("/run/files", str(port)).touch()
        os.truncate(f"/run/files/{port}", size)
        pace = f"--rate {60 // flow.period_s}/m"
        every = f"'{url}/{port}?[1-999]'"
        line = f"curl --disable -sSk --interface {own} --http1.1 {pace} -o /dev/null {every}"
    elif flow.kind == "rsync":
        place_of = f"rsync://{SENDER}:{port}/files/endless"
        line = f"rsync -W --write-devices --address={own} {place_of} /dev/null"
    elif flow.kind.startswith("iperf3"):
        pace = f"-b {round(_bits(cell, flow))} " if flow.kind == "iperf3-rate" else ""
        line = f"iperf3 -c {SENDER} -p {port} -B {own} -R {pace}-t {seconds:.0f} -i 0"
    elif flow.kind == "aioquic":
        line = f"{sys.executable} {HERE / 'quic_aio.py'} fetch {SENDER} {port} {seconds:.1f}"
    else:
        line = f"{place.quic_go} fetch {SENDER}:{port} {seconds:.1f}"
    place.start("dst", line, f"client-{port}.log")


def in_namespaces(cell: Cell, place: Place) -> None:
    """The cell itself: called in namespaces of its own."""
    Path("/run/files").mkdir()
    Path("/run/files/endless").touch()
    os.truncate("/run/files/endless", 4 << 30)
    sh(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout /run/key.pem -out /run/cert.pem "
        "-days 9 -subj /CN=sender 2>/dev/null"
    )
    relay = _wire(cell, place)
    ports = {PORT + i: flow for i, flow in enumerate(cell.flows)}
    for port, flow in ports.items():
        _serve(cell, flow, port, place)
    watch = place.start("r1", f"{place.binaries}/tcpilot watch b0 --json", "watch.jsonl")
    _until("the watch", lambda: "totals" in Path(place.folder, "watch.jsonl").read_text())
    begin = time.monotonic()
    for port, flow in sorted(ports.items(), key=lambda one: one[1].start_s):
        time.sleep(max(0.0, begin + flow.start_s - time.monotonic()))
        _fetch(cell, flow, port, SECONDS + 5 - flow.start_s, place)
    time.sleep(max(0.0, begin + SECONDS - time.monotonic()))
    sh(f"ip netns exec src ss -tnio state established > {place.folder}/sockets.txt")
    sh(f"tc -n r1 -s qdisc show dev b0 > {place.folder}/queue.txt")
    watch.send_signal(2)
    watch.wait()
    relay.send_signal(2)
    relay.wait()


def run_cell(cell: Cell, seed: int, out: Path, binaries: Path, quic_go: Path) -> str:
    """Runs it in private namespaces, and keeps the verdicts; returns a line about it."""
    folder = out / cell.name.replace(" ", "_")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = [str(sys.executable), str(HERE / "senders.py"), "--seed", str(seed), "cell", cell.name]
    words += [str(folder), str(binaries), str(quic_go)]
    first = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
    alone = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    answer = subprocess.run([*alone, "sh", "-c", first, "sh", *words], capture_output=True)
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip().splitlines()
        return f"{cell.name}: failed: {said[-1] if said else answer.returncode}"
    try:
        found = outcomes(cell, folder)
    except RuntimeError as error:
        return f"{cell.name}: failed: {error}"
    (out / f"{folder.name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return f"{cell.name}: " + ", ".join(f"{f['group']} {f['algorithm']}" for f in found["flows"])


def used(sockets: str, port: int) -> set[str]:
    """The algorithms of the connections of this port, as ss lists them."""
    lines = sockets.replace("[::ffff:", "").replace("]:", ":").splitlines()
    about = [b for a, b in pairwise(lines) if f"{SENDER}:{port} " in a]
    return {cc for one in about for cc in CONTROLS if cc in one.split()}


def outcomes(cell: Cell, folder: Path) -> dict[str, Any]:
    """The verdict on each flow at the end, and whether a rule ever named another group."""
    sockets = (folder / "sockets.txt").read_text()
    reports = (folder / "relay.json").read_text().splitlines()[1:]
    ways = [json.loads(one)[way] for one in reports for way in ("there", "back")]
    lines = [json.loads(one) for one in (folder / "watch.jsonl").read_text().splitlines()]
    flows = [line for line in lines if line["type"] == "flow"]
    found = []
    for i, flow in enumerate(cell.flows):
        mine = [f for f in flows if f["flow"].split(" > ")[0] == f"{SENDER}:{PORT + i}"]
        last = {f["id"]: f for f in mine}
        one = max(last.values(), key=lambda f: f["bytes"], default=None)
        of_one = [f for f in mine if one and f["id"] == one["id"]]
        wanted = GROUP_OF[flow.cc]
        certain = [f["group"] for f in of_one if f["why"] == "a certain sign"]
        keys = ("group", "algorithm", "confidence", "group_confidence", "rounds", "why", "spin")
        verdict = {key: one[key] if one else None for key in (*keys, "rate", "drops", "min_rtt_us")}
        if flow.kind not in dict(QUIC) and one and not used(sockets, PORT + i) == {flow.cc}:
            raise RuntimeError(f"{flow.kind}: {used(sockets, PORT + i)} instead of {flow.cc}")
        is_false = any(group != wanted for group in certain)
        found.append({**asdict(flow), **verdict, "wanted": wanted, "falsely_certain": is_false})
    late_us = max(way["late_us"]["p99"] for way in ways)
    about = {k: v for k, v in asdict(cell).items() if k != "flows"}
    return {
        **about,
        "late_us_p99": late_us,
        "fits": late_us <= LATE_US and not sum(way["full"] for way in ways),
        "flows": found,
    }


# The table.


def _row(title: str, group: str, flows: Sequence[dict[str, Any]]) -> str:
    right = sum(f["group"] == f["wanted"] for f in flows)
    wrong = sum(f["group"] in CONTROLLED and f["group"] != f["wanted"] for f in flows)
    early = sum(f["group"] in ("ant", "mouse") for f in flows)
    unknown = len(flows) - right - wrong - early
    named = sum(f["algorithm"] == f["cc"] for f in flows)
    certain = sum(f["falsely_certain"] for f in flows)
    cells = (title, group, len(flows), right, wrong, unknown, early, named, certain)
    return "| " + " | ".join(map(str, cells)) + " |"


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: verdicts by kind of traffic and group."""
    flows = [f for cell in found if cell["fits"] for f in cell["flows"]]
    head = [
        "kind",
        "group",
        "flows",
        "right",
        "wrong",
        "unknown",
        "ant or mouse",
        "right name",
        "falsely certain",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for kind, title in TITLES.items():
        for group in ("loss", "model"):
            mine = [f for f in flows if f["kind"] == kind and f["wanted"] == group]
            lines += [_row(title, group, mine)] if mine else []
    sums = (
        ("TCP, always data", BULK),
        ("QUIC, always data", dict(QUIC)),
        ("paced, or with pauses", LIMITED),
    )
    for title, kinds in sums:
        mine = [f for f in flows if f["kind"] in kinds]
        lines.append(_row(f"**{title}**", "", mine))
    return "\n".join(lines) + "\n"


def loaded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def kept(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]


def _run(options: argparse.Namespace) -> int:
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    quic_go = out / "quic_go"
    subprocess.run(["go", "build", "-o", str(quic_go), "."], cwd=HERE / "quic_go", check=True)
    done = {cell["name"] for cell in loaded(out) if cell["fits"]}
    cells = [
        c
        for c in plan(options.seed)
        if c.name not in done and any(w in c.name for w in options.only)
    ]

    def one(cell: Cell) -> str:
        return run_cell(cell, options.seed, out, options.binaries.resolve(), quic_go)

    with ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(one, cells):
            print(line, flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, metavar="N", help="that draws the cells")
    sub = parser.add_subparsers(required=True, dest="command")
    sub.add_parser("plan")
    run = sub.add_parser("run")
    run.add_argument("out", type=Path)
    run.add_argument("--binaries", type=Path, default=Path("target/release"))
    run.add_argument("--jobs", type=int, default=4)
    run.add_argument("--only", nargs="+", default=[""], help="words in the cells' names")
    keep = sub.add_parser("keep")
    for name in ("out", "file"):
        keep.add_argument(name, type=Path)
    sub.add_parser("table").add_argument("file", type=Path)
    cell = sub.add_parser("cell")
    for name in ("name", "folder", "binaries", "quic_go"):
        cell.add_argument(name)
    options = parser.parse_args()
    if options.command == "plan":
        for one in plan(options.seed):
            print(json.dumps({**asdict(one), "queue_packets": one.queue_packets}))
    elif options.command == "table":
        print(table(kept(options.file)), end="")
    elif options.command == "keep":
        cells = ({"command": COMMAND, **cell} for cell in loaded(options.out))
        lines = [json.dumps(cell, separators=(",", ":")) for cell in cells]
        options.file.write_bytes(lzma.compress("\n".join(lines).encode()))
    elif options.command == "cell":
        paths = (Path(options.folder), Path(options.binaries), Path(options.quic_go))
        chosen = next(c for c in plan(options.seed) if c.name == options.name)
        in_namespaces(chosen, Place(*paths, []))
    else:
        return _run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
