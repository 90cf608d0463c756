"""`tcplab export DIR`: a campaign's cells for other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tcplab.results.read import Campaign, ResultsError, read_campaign


def add_export(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    what = "cells as Flent's data files (.flent.gz), or as CSV"
    parser = commands.add_parser("export", help=what)
    parser.add_argument("directory", type=Path, metavar="DIR", help="result directory")
    what = "each cell's tables as CSV, next to their Parquet files"
    parser.add_argument("--csv", action="store_true", help=what)
    what = "target folder (default: DIR/flent, created; with --csv each cell's own)"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=what)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tcplab.export.csv import write_csv

    try:
        campaign = read_campaign(options.directory)
        folder = options.out or (campaign.folder / ("cells" if options.csv else "flent"))
        written = write_csv(campaign, options.out) if options.csv else _flent(campaign, folder)
    except (ResultsError, OSError) as problem:
        print(f"tcplab export: {problem}", file=sys.stderr)
        return 1
    print(f"{folder}: {len(written)} files")
    return 0


def _flent(campaign: Campaign, folder: Path) -> list[Path]:
    from tcplab.export.flent import write_flent

    folder.mkdir(parents=True, exist_ok=True)
    cells = (cell for cell in campaign.cells() if cell.status != "failed")
    return [file for cell in cells if (file := write_flent(campaign, cell, folder))]
