#!/usr/bin/env python3
"""Has `tcpilot watch --read` read the captures of docs/measured/data/captures.tsv.

    scripts/captures.py fetch FOLDER      those of Debian's sources and of crates.io
    scripts/captures.py table FOLDER      checks the hashes, and renews the page's table

A capture lies at FOLDER/NAME/PATH, as the list has them.  `fetch` needs Debian 12 with `deb-src`
in its list of sources, and cargo.  For the repositories, check out the commit of the list at
FOLDER/NAME.
"""

import argparse
import csv
import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs/measured/data/captures.tsv"
PAGE = ROOT / "docs/measured/captures.md"
BEGIN, END = (
    "<!-- scripts/captures.py: begin -->\n",
    "<!-- scripts/captures.py: end -->\n",
)
# A flow with fewer rounds says little.
ROUNDS = 20
NOT_JUDGED = {
    "other_packets": "other over IP",
    "not_ip_packets": "not IP",
    "fragments": "fragments",
    "cut_packets": "cut",
    "other_link_packets": "link type",
    "timeless_packets": "no time",
    "doubled_packets": "doubled",
}

Row = dict[str, str]


def rows() -> list[Row]:
    with LIST.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def fetch(folder: Path) -> None:
    origins = {row["folder"]: row["origin"] for row in rows()}
    for name, origin in origins.items():
        if origin.startswith("Debian"):
            package = origin.split()[1]
            folder.mkdir(parents=True, exist_ok=True)
            source = ["apt-get", "source", "--download-only", package]
            subprocess.run(source, cwd=folder, check=True)
            archive = next(folder.glob(f"{package}_*.orig.tar.*[z2]"))
            unpack(archive, folder / name)
        elif origin.startswith("crates.io"):
            link(origin.split()[1], folder / name)
        else:
            print(f"{name}: check {origin} out at {folder / name}", file=sys.stderr)


def unpack(archive: Path, to: Path) -> None:
    """Unpacks an archive without its topmost folder."""
    with tarfile.open(archive) as tar:
        for member in tar:
            member.name = member.name.partition("/")[2]
            if member.name and member.isfile():
                tar.extract(member, to, filter="data")


def link(crate: str, to: Path) -> None:
    """tcpilot depends on the crate, so cargo has its source."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    manifests = [p["manifest_path"] for p in json.loads(found)["packages"] if p["name"] == crate]
    to.unlink(missing_ok=True)
    to.symlink_to(Path(manifests[0]).parent)


def read(tcpilot: str, file: Path) -> tuple[list[dict], dict]:
    """The flows and the totals of a capture."""
    command = [tcpilot, "watch", "--json", "--read", str(file)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in found.splitlines()]
    return lines[:-1], lines[-1]


def verdicts(flows: list[dict]) -> str:
    """The flows with enough rounds, by group, and by name or reason."""
    counts: dict[str, int] = {}
    for flow in flows:
        if flow["rounds"] < ROUNDS:
            continue
        name, group = flow["algorithm"], flow["group"]
        because = f"{name} {flow['confidence']:.2f}" if name and group != "unknown" else flow["why"]
        said = f"{group}: {because}"
        counts[said] = counts.get(said, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return "; ".join(f"{count} {said}" for said, count in ordered) or "-"


def line(row: Row, folder: Path, tcpilot: str) -> str:
    file = folder / row["folder"] / row["path"]
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != row["sha256"]:
        sys.exit(f"{file}: its hash is {found}, not that of the list")
    flows, totals = read(tcpilot, file)
    capture = totals["capture"]
    missed = [f"{capture[key]} {word}" for key, word in NOT_JUDGED.items() if capture[key]]
    writer = f", written by {row['writer']}" if row["writer"] else ""
    cells = [
        f"{row['folder']}: {file.name}",
        row["content"] + writer,
        f"`{row['sha256'][:12]}`",
        f"{capture['packets']:,}",
        ", ".join(missed) or "-",
        str(len(flows)),
        verdicts(flows),
    ]
    return "| " + " | ".join(cells) + " |\n"


def table(folder: Path, tcpilot: str) -> None:
    head = (
        "| capture | content | SHA-256 | packets | not judged | flows | of these with 20 rounds |\n"
    )
    text = head + "|---|---|---|---|---|---|---|\n"
    text += "".join(line(row, folder, tcpilot) for row in rows())
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + text + END + after)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["fetch", "table"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tcpilot", default=str(ROOT / "target/release/tcpilot"))
    given = parser.parse_args()
    if given.what == "fetch":
        fetch(given.folder)
    else:
        table(given.folder, given.tcpilot)


if __name__ == "__main__":
    main()
