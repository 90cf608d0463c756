"""Puts the cells of `l4s` into docs/measured/data, and their tables into docs/measured/l4s.md.

python -m tcplab.studies.l4s DIR…     cells that are done; a campaign may be broken off
python -m tcplab.studies.l4s          the page anew, from the records that are there
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tcplab.studies.l4s import records, tables

_DOCS = Path(__file__).parents[4] / "docs" / "measured"
RECORDS = _DOCS / "data" / "l4s.jsonl"
PAGE = _DOCS / "l4s.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", metavar="DIR", nargs="*", type=Path)
    known = records.load(RECORDS)
    for folder in parser.parse_args().folders:
        known |= records.of_campaign(folder)
    records.save(RECORDS, known)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(tables.renewed(text, list(known.values())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
