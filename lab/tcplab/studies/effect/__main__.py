"""Puts campaigns' cells into docs/measured/data, and their tables into docs/measured/effect.md.

python -m tcplab.studies.effect DIR…     cells that are done; a campaign may be broken off
python -m tcplab.studies.effect          the page anew, from the records that are there
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tcplab.studies.effect import records, tables
from tcplab.studies.multipath.records import load, save

_DOCS = Path(__file__).parents[4] / "docs" / "measured"
RECORDS = _DOCS / "data" / "effect.jsonl"
PAGE = _DOCS / "effect.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", metavar="DIR", nargs="*", type=Path)
    known = load(RECORDS)
    for folder in parser.parse_args().folders:
        known |= records.of_campaign(folder)
    save(RECORDS, known)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(tables.renewed(text, list(known.values())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
