#!/usr/bin/env python3
"""Lets a daemon live through hours of churn, and shows any growth.

    scripts/soak.py HOURS [--daemons 1] [--binaries target/release] [--seed 1]

Connections of several kinds, resets, reloads, upgrades in place, congestion controls loaded and
unloaded, scrapes, questions, the watch with and without fair queues, namespaces and cgroups that
come and go: one of these every second or so, drawn by the seed; with several daemons, by one of
them. Runs in pieces of at most 50 minutes, each with a new daemon; several pieces at a time with
--daemons, and their hours add up. Figures of all pieces are kept in target/soak/measures.jsonl, so
the next run goes on; delete that file to begin again. target/soak/growth.svg shows them.

Fails if the daemon ends, if a step fails, if something is left behind, if it steers nothing, or if
the least that it holds grows by more than a tenth from the second quarter of a piece to its last
one. Needs root: it makes network namespaces and cgroups, and removes them. A signal (INT, TERM)
ends it early, and all is removed.
"""

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scrape import PORT, ROOT, cgroup, empty_group, namespaces, process, until

FOLDER = ROOT / "target/soak"
PIECE_S = 50 * 60
NAME = "tpsoak"
# A child ends with this script, however that ends.
BOUND = ["setpriv", "--pdeathsig", "TERM"]
LOOK_EVERY_S = 10
# A host with other work is slow. A daemon that hangs is slower.
PATIENCE_S = 300
GROWTH_MAX = 1.1
# What a command says if the daemon is slow. Then it is to be called again.
BUSY = ("ask again", "has not said the outcome")
# Below this many seconds a piece is too short to tell growth from its start.
JUDGED_S = 600
# Set by a signal: what runs is ended and put back, and its hours count.
STOP = threading.Event()
# Two daemons cannot load the same algorithm at once.
LOADING = threading.Lock()
FIGURES = {
    "resident_kib": "memory of the daemon, KiB",
    "descriptors": "its descriptors",
    "threads": "its threads",
    "paths": "its paths",
    "programs": "BPF programs and maps it holds",
    "state_bytes": "state file, bytes",
    "algorithms": "registered congestion controls",
}


def registered() -> list[str]:
    """The host's congestion controls."""
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


class Soak:
    """A daemon, its traffic, and the steps."""

    def __init__(self, folder: Path, near: str, group: Path, options: argparse.Namespace) -> None:
        self.folder, self.near, self.group = folder, near, group
        self.binaries = options.binaries
        # Several daemons on a small machine leave each other, and its other work, some room.
        self.pause_s = options.daemons
        self.random = random.Random(f"{options.seed} {near}")
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self.daemon: subprocess.Popen | None = None

    def command(self, *words: object, inside: bool = False) -> str:
        """A command's standard output; a failure is noted."""
        whole = ["ip", "netns", "exec", self.near] if inside else []
        whole += [str(self.binaries / str(words[0])), *map(str, words[1:])]
        end, said = time.monotonic() + PATIENCE_S, ""
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(whole, capture_output=True, text=True, timeout=left)
                if not done.returncode:
                    return done.stdout
                said = f"{done.returncode}, {done.stderr.strip()[-300:]}"
                if not any(busy in said for busy in BUSY):
                    break
                time.sleep(1)
        self.failed.append(f"{' '.join(whole)}: {said or f'not done after {PATIENCE_S} s'}")
        return ""

    def ask(self, *words: str) -> None:
        self.command("tcpilot", *words, "--socket", self.folder / "sock")

    def reload(self) -> None:
        held_out = self.random.choice((0, 5, 20))
        text = f"[effect]\nhold_out_percent = {held_out}\n"
        (self.folder / "tcpilot.toml").write_text(text)
        self.upgrade()

    def upgrade(self) -> None:
        self.command("tcpilot", "run", "--upgrade", "--socket", self.folder / "sock")

    def question(self) -> None:
        self.ask(self.random.choice(("status", "paths", "flows", "report")), "--json")

    def scrape(self) -> None:
        self.ask("metrics")

    def export(self) -> None:
        self.ask("state", "export", str(self.folder / "export.json"))

    def watch(self) -> None:
        fair = ["--fair", "--rate", "200"] if self.random.random() < 0.5 else []
        self.command("tcpilot", "watch", "eth0", "--json", "--for", 3, *fair, inside=True)

    def algorithm(self) -> None:
        with LOADING:
            if "tp_lola" in registered():
                return  # of somebody else
            self.command("tcpilot", "cc", "load", "lola", "--bpffs", self.folder / "bpf")
            self.command("tcpilot", "cc", "unload", "lola", "--bpffs", self.folder / "bpf")

    def abort(self) -> None:
        how = self.random.choice(("reset", "vanish"))
        self.in_group(self.group, f"abort --to 10.77.0.2:{PORT} --how {how}")

    def namespace(self) -> None:
        name = f"{self.near}x"
        subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "netns", "del", name], check=True)

    def child_cgroup(self) -> None:
        child = self.group / "child"
        child.mkdir()
        self.in_group(child, f"short --to 10.77.0.2:{PORT} --seconds 1")
        remove_group(child)

    def in_group(self, group: Path, words: str) -> None:
        whole = self.inside(group, f"{self.binaries}/flowgen {words}")
        # An aborted transfer is an error of flowgen's, as it should be.
        try:
            subprocess.run(whole, capture_output=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            self.failed.append(f"{words}: not done after {PATIENCE_S} s")

    def inside(self, group: Path, line: str) -> list[str]:
        """A command of the near host in a cgroup; `ip netns exec` hides that, so it is second."""
        enter = f'echo $$ >{group}/cgroup.procs && exec ip netns exec {self.near} sh -c "$0"'
        return ["sh", "-c", enter, line]

    def steps(self) -> list[Callable[[], None]]:
        often = [self.question, self.scrape, self.abort, self.child_cgroup] * 3
        return [*often, self.reload, self.upgrade, self.export, self.watch, self.algorithm,
                self.namespace]  # fmt: skip

    def look(self) -> dict[str, float]:
        """The figures of now."""
        assert self.daemon
        place = Path(f"/proc/{self.daemon.pid}")
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        held = 0
        for file in (place / "fdinfo").iterdir():
            with contextlib.suppress(OSError):
                text = file.read_text()
                held += "map_id:" in text or "prog_id:" in text
        state = self.folder / "state.db"
        said = self.command("tcpilot", "paths", "--json", "--socket", self.folder / "sock")
        return {
            "resident_kib": int(status["VmRSS"].split()[0]),
            "descriptors": len(list((place / "fd").iterdir())),
            "threads": int(status["Threads"]),
            "paths": len(json.loads(said or "{}").get("paths", [])),
            "programs": held,
            "state_bytes": state.stat().st_size if state.exists() else 0,
            "algorithms": len(registered()),
        }

    def live(self, seconds: float, note: Callable[[dict[str, float]], None]) -> None:
        """The piece: traffic all the time, a step now and then, a look every ten seconds."""
        folder = self.folder
        (folder / "tcpilot.toml").touch()
        daemon = [
            *BOUND,
            str(self.binaries / "tcpilot"),
            "run",
            "--cgroup",
            str(self.group),
            "--config",
        ]
        daemon += [f"{folder}/tcpilot.toml", "--state", f"{folder}/state.db"]
        daemon += ["--socket", f"{folder}/sock"]
        spread = f"{self.binaries}/flowgen spread --to-prefix 10.64.0.0/14 --port {PORT}"
        spread += " --distinct 300 --hot 10 --bytes 100000 --concurrency 8"
        loop = f"while {spread} >/dev/null 2>&1; do sleep {self.pause_s}; done"
        traffic = [*BOUND, *self.inside(self.group, loop)]
        with process(daemon, stderr=(folder / "log").open("w")) as self.daemon:
            ended = self.daemon.poll
            answers = (folder / "sock").exists
            until("the daemon answers or ends", lambda: answers() or ended(), PATIENCE_S)
            if ended():
                self.failed.append((folder / "log").read_text()[-500:])
                return
            with process(traffic, start_new_session=True):
                begun = looked = time.monotonic()
                while (now := time.monotonic()) - begun < seconds and not STOP.is_set():
                    if self.daemon.poll() is not None:
                        self.failed.append(f"the daemon ended: {self.daemon.returncode}")
                        break
                    step = self.random.choice(self.steps())
                    step()
                    self.done[step.__name__] += 1
                    if now - looked >= LOOK_EVERY_S:
                        looked = now
                        steps = sum(self.done.values())
                        note({"at_s": round(now - begun), "steps": steps, **self.look()})
                        progress(now - begun, seconds, self.done)
                    time.sleep(self.random.random() * self.pause_s)
                empty_group(self.group)


def progress(now: float, whole: float, done: Counter[str]) -> None:
    if sys.stderr.isatty():
        text = f"soak: {now:.0f} of {whole:.0f} s, {sum(done.values())} steps"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


def remove_leftovers() -> None:
    """A killed run leaves namespaces, a cgroup, and a mount, which holds a loaded algorithm."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for _, place, kind, *_ in mounts:
        if kind == "bpf" and f"/{NAME}" in place:
            subprocess.run(["umount", place], check=False)
        if kind == "cgroup2":
            for group in sorted(Path(place).glob(f"{NAME}*"), reverse=True):
                for one in (group / "child", group):
                    if one.exists():
                        remove_group(one)
    listed = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    for name in (line.split()[0] for line in listed.splitlines() if line.startswith(NAME)):
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def remove_group(group: Path) -> None:
    empty_group(group)
    empty = "the cgroup is empty"
    until(empty, lambda: not (group / "cgroup.procs").read_text(), PATIENCE_S)
    group.rmdir()


def pieces(seconds: float, options: argparse.Namespace) -> list[str]:
    """So many at a time: what was wrong."""
    remove_leftovers()
    before = registered()
    first = int(max((m["piece"] for m in recorded()), default=0)) + 1
    numbers = range(first, first + options.daemons)
    with ThreadPoolExecutor(len(numbers)) as together:
        found = together.map(lambda n: piece(seconds, n, options), numbers)
        wrong = [fault for one in found for fault in one]
    after = registered()
    left = [f"registered: {before} became {after}"] if after != before else []
    return wrong + left


def piece(seconds: float, number: int, options: argparse.Namespace) -> list[str]:
    name = f"{NAME}{number}"
    measures: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory(prefix=name) as folder,
        namespaces(name) as (near, far),
        cgroup(name) as group,
    ):
        serve = f"ip netns exec {far} {options.binaries}/flowgen serve --listen [::]:{PORT}"
        bpffs = Path(folder, "bpf")
        bpffs.mkdir()
        subprocess.run(["mount", "-t", "bpf", "bpf", bpffs], check=True)
        soak = Soak(Path(folder), near, group, options)
        try:
            with process([*BOUND, *serve.split()], stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout
                server.stdout.readline()  # it listens
                with (FOLDER / "measures.jsonl").open("a") as file:

                    def note(measure: dict[str, float]) -> None:
                        measures.append(measure)
                        print(json.dumps({"piece": number, **measure}), file=file, flush=True)

                    soak.live(seconds, note)
        finally:
            subprocess.run(["umount", bpffs], check=False)
    print(f"\npiece {number}: " + ", ".join(f"{n} {what}" for what, n in soak.done.most_common()))
    return soak.failed + growth(measures)


def growth(measures: list[dict[str, float]]) -> list[str]:
    """What grew in one piece: its second quarter against its last one."""
    if not measures or measures[-1]["at_s"] < JUDGED_S:
        return []
    if not any(m["paths"] for m in measures):
        return ["the daemon steered nothing"]
    end = measures[-1]["at_s"]
    quarter = [[m for m in measures if q <= 4 * m["at_s"] / end <= q + 1] for q in (1, 3)]
    if not all(quarter):
        return ["too few looks to judge growth"]
    found = []
    for figure in ("resident_kib", "descriptors", "threads", "programs"):
        early, late = (min(m[figure] for m in some) for some in quarter)
        if late > GROWTH_MAX * early:
            found.append(f"{FIGURES[figure]} grew from {early:.0f} to {late:.0f}")
    return found


def recorded() -> list[dict[str, float]]:
    file = FOLDER / "measures.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return sorted(map(json.loads, lines), key=lambda measure: measure["piece"])


def in_all(figure: str, measures: list[dict[str, float]]) -> float:
    """The sum of all pieces, of what only grows in each."""
    ends: dict[float, float] = {}
    for measure in measures:
        ends[measure["piece"]] = max(measure.get(figure, 0), ends.get(measure["piece"], 0))
    return sum(ends.values())


def picture(measures: list[dict[str, float]]) -> str:
    """A line for each figure, over the time of all pieces, each on its own scale from 0."""
    width, height, left = 800, 90, 10
    whole = max(in_all("at_s", measures), 1)
    parts = []
    for row, (figure, title) in enumerate(FIGURES.items()):
        most = max((m[figure] for m in measures), default=1) or 1
        base, before, last, points = (row + 1) * height, 0.0, 0.0, []
        piece_now: float | None = None
        for m in measures:
            if m["piece"] != piece_now:
                before, piece_now = before + last, m["piece"]
            last = m["at_s"]
            x = left + (before + last) / whole * (width - 2 * left)
            points.append(f"{x:.1f},{base - 10 - m[figure] / most * (height - 35):.1f}")
        parts.append(
            f'<text x="{left}" y="{base - height + 18}">{title}: at most {most:,.0f}</text>'
            f'<polyline fill="none" stroke="#2a7f9e" points="{" ".join(points)}"/>'
        )
    style = "font: 13px sans-serif"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {len(FIGURES) * height}" '
        f'style="{style}"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hours", type=float, metavar="HOURS", help="how much longer, by the clock")
    parser.add_argument("--daemons", type=int, default=1, metavar="N", help="pieces at a time")
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.binaries = options.binaries.resolve()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: STOP.set())
    left_s = options.hours * 3600
    wrong: list[str] = []
    while left_s > 1 and not wrong and not STOP.is_set():
        wrong = pieces(min(left_s, PIECE_S), options)
        left_s -= PIECE_S
    measures = recorded()
    (FOLDER / "growth.svg").write_text(picture(measures))
    print(f"{'figure':36}{'first':>12}{'last':>12}{'most':>12}")
    for figure, title in FIGURES.items():
        row = [m[figure] for m in measures] or [0]
        print(f"{title:36}{row[0]:>12.0f}{row[-1]:>12.0f}{max(row):>12.0f}")
    hours, steps = in_all("at_s", measures) / 3600, in_all("steps", measures)
    print(f"{hours:.2f} hours and {steps:.0f} steps in all; the plot is {FOLDER}/growth.svg")
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
