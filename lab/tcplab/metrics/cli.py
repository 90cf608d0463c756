"""`tcplab metrics DIR`: recomputes the metrics of a campaign."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tcplab.results.read import ResultsError, read_campaign


def add_metrics(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    parser = commands.add_parser("metrics", help="compute a campaign's metrics anew")
    parser.add_argument("directory", type=Path, metavar="DIR", help="result directory")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tcplab.metrics.cell import write_cell
    from tcplab.metrics.summary import write_summary

    try:
        campaign = read_campaign(options.directory)
        measured = [cell for cell in campaign.cells() if cell.status != "failed"]
        for cell in measured:
            write_cell(cell.folder)
        summary = write_summary(campaign.folder)
    except ResultsError as problem:
        print(f"tcplab metrics: {problem}", file=sys.stderr)
        return 1
    print(f"{campaign.folder}: {len(measured)} cells, {len(summary['points'])} points")
    return 0
