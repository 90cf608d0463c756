"""`tcplab report DIR`: the page of a campaign, written anew."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tcplab.results.read import ResultsError


def add_report(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    parser = commands.add_parser("report", help="write a campaign's page anew")
    parser.add_argument("directory", type=Path, metavar="DIR", help="result directory")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tcplab.report.page import write

    try:
        print(write(options.directory))
    except ResultsError as problem:
        print(f"tcplab report: {problem}", file=sys.stderr)
        return 1
    return 0
