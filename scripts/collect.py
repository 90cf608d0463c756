#!/usr/bin/env python3
"""Has two collectors of Debian, nfcapd and nfacctd, take the IPFIX records of a live watch.

    scripts/collect.py [--binaries target/release]

Fails if a collector lacks a flow, or shows other bytes or packets of it than the watch's own JSON.
Needs root, nfdump and pmacct: it makes two network namespaces, and removes them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scrape import PORT, ROOT, namespaces, process, until

# Bytes and packets of a flow, by its sender's address and port.
Flow = dict[tuple[str, int], tuple[int, int]]
UPLOADS = 5
BYTES = 2_000_000
NFCAPD, NFACCTD = 9995, 9996
NFACCTD_CONF = """\
nfacctd_port: {port}
nfacctd_ip: 127.0.0.1
plugins: print
print_output: json
print_output_file: {folder}/flows.json
print_refresh_time: 2
print_history: 1h
print_output_file_append: true
aggregate: src_host, dst_host, src_port, dst_port, proto
pidfile: {folder}/pid
"""


def added(flows: list[tuple[str, int, int, int]]) -> Flow:
    """By the sender's address and port, unique to a flow."""
    found: Flow = {}
    for host, port, octets, packets in flows:
        before = found.get((host, port), (0, 0))
        found[host, port] = before[0] + octets, before[1] + packets
    return found


def of_watch(text: str) -> Flow:
    """A flow has a line in each second; its counts are those since it was first seen."""
    found: Flow = {}
    for line in map(json.loads, text.splitlines()):
        if line["type"] == "flow":
            host, port = line["flow"].split(" ")[0].rsplit(":", 1)
            found[host, int(port)] = line["bytes"], line["packets"]
    return found


def of_nfdump(folder: Path) -> Flow:
    words = ["nfdump", "-q", "-R", str(folder), "-o", "fmt:%sa,%sp,%byt,%pkt", "-N"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    cells = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line]
    return added([(a, int(p), int(b), int(n)) for a, p, b, n in cells])


def of_nfacctd(folder: Path) -> Flow:
    file = folder / "flows.json"
    lines = file.read_text().splitlines() if file.exists() else []
    flows = [json.loads(line) for line in lines]
    return added([(f["ip_src"], f["port_src"], f["bytes"], f["packets"]) for f in flows])


def compare(name: str, shown: Flow, got: Flow) -> None:
    if len(shown) != UPLOADS or got != shown:
        sys.exit(f"collect: {name} shows {got}, and the watch {shown}")
    octets, packets = (sum(each) for each in zip(*got.values(), strict=True))
    print(f"{name}: {len(got)} flows, {octets} bytes, {packets} packets, as the watch shows them")


def watched(near: str, binaries: Path, port: int) -> Flow:
    """The flows of five uploads, as shown by a watch that exports its records to a port."""
    inside = ["ip", "netns", "exec", near]
    words = [*inside, str(binaries / "tcpilot"), "watch", "eth0"]
    words += ["--ipfix", f"127.0.0.1:{port}", "--once", "--json", "--for", "8"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as watch:
        time.sleep(3)
        for _ in range(UPLOADS):
            upload = [str(binaries / "flowgen"), "bulk", "--to", f"10.77.0.2:{PORT}"]
            subprocess.run(
                [*inside, *upload, "--bytes", str(BYTES)], check=True, stdout=subprocess.DEVNULL
            )
        text = watch.communicate()[0]
    return of_watch(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release")
    binaries = parser.parse_args().binaries.resolve()
    with namespaces("tpc") as (near, far), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        conf = folder / "nfacctd.conf"
        conf.write_text(NFACCTD_CONF.format(port=NFACCTD, folder=folder))
        (folder / "nf").mkdir()
        serve = [str(binaries / "flowgen"), "serve", "--listen", f"[::]:{PORT}"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        inside = ["ip", "netns", "exec", near]
        with process(["ip", "netns", "exec", far, *serve], **quiet):
            nfcapd = [*inside, "nfcapd", "-l", str(folder / "nf"), "-b", "127.0.0.1"]
            with process([*nfcapd, "-p", str(NFCAPD), "-t", "60"], **quiet):
                time.sleep(1)
                shown = watched(near, binaries, NFCAPD)
            compare("nfdump", shown, of_nfdump(folder / "nf"))
            with process([*inside, "nfacctd", "-f", str(conf)], **quiet):
                time.sleep(1)
                shown = watched(near, binaries, NFACCTD)
                until("nfacctd has all flows", lambda: of_nfacctd(folder) == shown, 15)
                compare("pmacct", shown, of_nfacctd(folder))


if __name__ == "__main__":
    main()
