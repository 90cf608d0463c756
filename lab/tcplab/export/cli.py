"""`tcplab export DIR`: a campaign's cells for other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tcplab.results.read import ResultsError, read_campaign


def add_export(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    parser = commands.add_parser("export", help="cells as Flent's data files (.flent.gz)")
    parser.add_argument("directory", type=Path, metavar="DIR", help="result directory")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="target folder (default: DIR/flent, created)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tcplab.export.flent import write_flent

    try:
        campaign = read_campaign(options.directory)
        folder = options.out or campaign.folder / "flent"
        folder.mkdir(parents=True, exist_ok=True)
        written = [
            file
            for cell in campaign.cells()
            if cell.status != "failed" and (file := write_flent(campaign, cell, folder))
        ]
    except (ResultsError, OSError) as problem:
        print(f"tcplab export: {problem}", file=sys.stderr)
        return 1
    print(f"{folder}: {len(written)} files")
    return 0
