#!/usr/bin/env python3
"""Has a real Prometheus scrape a daemon under load with 16,384 paths.

    scripts/scrape.py [--seconds 600] [--learner thompson] [--binaries target/release]

Fails if one scrape in twenty takes 50 ms or longer, if there are more series than a daemon may
have, or if a query of the dashboard has no answer. Needs root: it makes two network namespaces and
a cgroup, and removes them.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCRAPE_S_MAX = 0.05
# What has labels is bounded: by 21 reasons, 8 algorithms, two groups and a histogram's bounds.
SERIES_MAX = 400
PORT = 5201
# Enough for a sample of most paths.
BYTES = 70_000
SETTLE_S = 3


def run(words: str) -> None:
    subprocess.run(words.split(), check=True)


@contextlib.contextmanager
def namespaces(name: str) -> Iterator[tuple[str, str]]:
    """Two, joined by a link; far answers for 10.64.0.0/14."""
    near, far = f"{name}n", f"{name}f"
    try:
        for one, host in ((near, 1), (far, 2)):
            run(f"ip netns add {one}")
            run(f"ip -n {one} link set lo up")
            if host == 2:
                run(f"ip link add eth0 netns {near} type veth peer name eth0 netns {far}")
        for one, host in ((near, 1), (far, 2)):
            run(f"ip -n {one} addr add 10.77.0.{host}/24 dev eth0")
            run(f"ip -n {one} link set eth0 up")
        run(f"ip -n {near} route add 10.64.0.0/14 via 10.77.0.2")
        run(f"ip -n {far} route add local 10.64.0.0/14 dev lo")
        yield near, far
    finally:
        for one in (near, far):
            subprocess.run(["ip", "netns", "del", one], check=False)


@contextlib.contextmanager
def cgroup(name: str) -> Iterator[Path]:
    """A cgroup of the hierarchy v2, wherever it is mounted."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    root = next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2")
    path = Path(root, name)
    path.mkdir()
    try:
        yield path
    finally:
        for _ in range(50):
            try:
                path.rmdir()
                break
            except OSError:
                time.sleep(0.1)


@contextlib.contextmanager
def process(words: list[str], **more: Any) -> Iterator[subprocess.Popen]:
    child = subprocess.Popen(words, **more)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def until(what: str, look: Any, seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    sys.exit(f"scrape: waited in vain until {what}")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Prometheus:
    """The server's answers."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        try:
            return bool(get(f"{self.base}/-/ready"))
        except OSError:
            return False

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        text = get(f"{self.base}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer = json.loads(text)
        if answer["status"] != "success":
            sys.exit(f"scrape: {expression}: {text}")
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]

    def number(self, expression: str) -> float:
        found = self.query(expression)
        if not found:
            sys.exit(f"scrape: {expression} has no answer")
        return found[0][1]


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Each panel's title and query, filled in as by Grafana."""
    dashboard = json.loads((ROOT / "packaging/grafana/tcpilot.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
            yield panel["title"], expression


# This load lacks pairs, which take hours, and traffic over a network card.
NO_ANSWER = {
    "Traffic that can be steered",
    "Goodput gained",
    "Effect on goodput",
    "Effect by measure",
}


def judge(prometheus: Prometheus, options: argparse.Namespace, metrics: str) -> list[str]:
    """The failures."""
    window = f"[{int(options.seconds) + 60}s]"
    took_s = {
        share: prometheus.number(f"quantile_over_time({share}, scrape_duration_seconds{window})")
        for share in (0.5, 0.95, 0.99, 1)
    }
    times = ", ".join(
        f"{1000 * time_s:.1f} ms {'at most' if share == 1 else f'p{100 * share:.0f}'}"
        for share, time_s in took_s.items()
    )
    scrape_s = took_s[0.95]
    scrapes = prometheus.number(f"count_over_time(up{window})")
    lost = scrapes - prometheus.number(f"sum_over_time(up{window})")
    series = prometheus.number("scrape_samples_scraped")
    most_series = prometheus.number(f"max_over_time(scrape_samples_scraped{window})")
    paths = prometheus.number("tcpilot_paths")
    print(
        f"{options.learner}: {scrapes:.0f} scrapes with {paths:.0f} paths: {times}; "
        f"{series:.0f} series at the end, {most_series:.0f} at most"
    )
    wrong = []
    if lost:
        wrong.append(f"{lost:.0f} scrapes failed")
    if paths < options.paths:
        wrong.append(f"{paths:.0f} paths are fewer than {options.paths}")
    if scrape_s >= SCRAPE_S_MAX:
        wrong.append(
            f"scrapes took {1000 * scrape_s:.1f} ms, {1000 * SCRAPE_S_MAX:.0f} are allowed"
        )
    if most_series > SERIES_MAX:
        wrong.append(f"{most_series:.0f} series, {SERIES_MAX} are allowed")
    if re.search(r"10\.6\d\.|10\.77\.", metrics):
        wrong.append("a metric has an address")
    for title, expression in dashboard_queries():
        if title not in NO_ANSWER and not prometheus.query(expression):
            wrong.append(f"the panel {title!r} has no answer: {expression}")
    return wrong


def load(options: argparse.Namespace, near: str, group: Path, seed: int | None = None) -> list[str]:
    """A shell's words for connections to the addresses of a seed, or of the first one for ever."""
    spread = (
        f"ip netns exec {near} {options.binaries}/flowgen spread --to-prefix 10.64.0.0/14 "
        f"--port {PORT} --distinct {options.paths * 5 // 4} --hot 10 --bytes {BYTES}"
    )
    loop = f"{spread} --seed {seed}" if seed else f"while {spread} >/dev/null; do :; done"
    return ["sh", "-c", f"echo $$ >{group}/cgroup.procs; {loop}"]


def known_paths(port: int) -> float:
    text = get(f"http://127.0.0.1:{port}/metrics")
    lines = (line.split() for line in text.splitlines())
    return next(float(words[1]) for words in lines if words[0] == "tcpilot_paths")


def measure(options: argparse.Namespace, folder: Path, near: str, group: Path) -> list[str]:
    listen, own = free_port(), free_port()
    (folder / "tcpilot.toml").write_text(
        f'paths_max = {2 * options.paths}\n[learner]\nkind = "{options.learner}"\n'
    )
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {options.interval}s}}\n"
        "scrape_configs:\n- job_name: tcpilot\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{listen}']}}]\n"
    )
    daemon = f"{options.binaries}/tcpilot run --cgroup {group} --config {folder}/tcpilot.toml"
    daemon += f" --state {folder}/state.db --socket {folder}/sock --listen {listen}"
    server = subprocess.run(
        [ROOT / "scripts/find-prometheus", "prometheus"],
        check=True,
        text=True,
        capture_output=True,
    )
    command = f"{server.stdout.strip()} --config.file={folder}/prometheus.yml"
    command += (
        f" --storage.tsdb.path={folder}/data --web.listen-address=127.0.0.1:{own} --log.level=warn"
    )
    quiet = {"stdout": subprocess.DEVNULL}
    with process(daemon.split(), stderr=(folder / "log").open("w")):
        until("the daemon answers", lambda: (folder / "sock").exists())
        for seed in range(1, 10):
            subprocess.run(load(options, near, group, seed), check=True, **quiet)
            if known_paths(listen) >= options.paths:
                break
        time.sleep(SETTLE_S)
        with (
            process(load(options, near, group), start_new_session=True, **quiet),
            process(command.split()),
        ):
            prometheus = Prometheus(own)
            until("Prometheus is ready", prometheus.is_ready)
            time.sleep(options.seconds)
            metrics = get(f"http://127.0.0.1:{listen}/metrics")
            wrong = judge(prometheus, options, metrics)
            empty_group(group)
    return wrong


def empty_group(group: Path) -> None:
    """The load ends: processes of this script's own cgroup."""
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--interval", type=int, default=5, help="seconds between two scrapes")
    parser.add_argument("--learner", choices=("thompson", "epsilon-greedy"), default="thompson")
    parser.add_argument("--paths", type=int, default=16384)
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release")
    options = parser.parse_args()
    options.binaries = options.binaries.resolve()
    name = f"tp{os.getpid()}"
    with (
        tempfile.TemporaryDirectory(prefix=name) as folder,
        namespaces(name) as (near, far),
        cgroup(name) as group,
    ):
        serve = f"ip netns exec {far} {options.binaries}/flowgen serve --listen [::]:{PORT}"
        with process(serve.split(), stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            server.stdout.readline()  # it listens
            wrong = measure(options, Path(folder), near, group)
    for line in wrong:
        print(f"scrape: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
