"""`tcplab report DIR` writes the page of a campaign, `tcplab table DIR` prints its figures."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tcplab.results.read import ResultsError, read_campaign


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


def add_table(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    parser = commands.add_parser(
        "table",
        help="a campaign's figures as text, beside the published ones",
        description="Prints medians as Markdown tables, with intervals if repetitions give "
        "them, and every published table that the campaign reproduces, ours beside theirs.",
    )
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="result directory")
    add("--metric", action="append", default=[], metavar="NAME",
        help="this one, such as goodput_mbit or jain; may be given several times "
        "(default: the first one of the page)")  # fmt: skip
    add("--destinations", action="store_true", help="a row for each of many destinations")
    add("--json", action="store_true", help="everything, as JSON")
    parser.set_defaults(run=_table)


def _table(options: argparse.Namespace) -> int:
    from tcplab.report.text import as_json, by_destination, markdown

    try:
        campaign = read_campaign(options.directory)
        if options.json:
            print(json.dumps(as_json(campaign), indent=1))
        elif options.destinations:
            print(by_destination(campaign))
        else:
            print(markdown(campaign, options.metric))
    except ResultsError as problem:
        print(f"tcplab table: {problem}", file=sys.stderr)
        return 1
    except KeyError as problem:
        print(f"tcplab table: no cell has the metric {problem}; "
              "docs/use/laboratory-metrics.md lists them", file=sys.stderr)  # fmt: skip
        return 2
    return 0
