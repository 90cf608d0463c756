"""`tcplab metrics DIR`: computes the metrics of a campaign anew."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tcplab.metrics.cell import write_cell
from tcplab.metrics.summary import write_summary
from tcplab.results.read import read_campaign


def add_metrics(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    parser = commands.add_parser("metrics", help="compute the metrics of a campaign anew")
    parser.add_argument("directory", type=Path, metavar="DIR", help="result directory")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    campaign = read_campaign(options.directory)
    count = 0
    for cell in campaign.cells():
        if cell.status != "failed":
            write_cell(cell.folder)
            count += 1
    summary = write_summary(campaign.folder)
    print(f"{campaign.folder}: {count} cells, {len(summary['points'])} points")
    return 0
