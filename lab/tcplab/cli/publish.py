"""`tcplab publish`: campaigns' figures into docs/measured."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_publish(commands: Any) -> None:
    """Adds the subcommand to argparse's subparsers."""
    what = "put campaigns' figures into docs/measured, or renew its tables"
    parser = commands.add_parser(
        "publish",
        help=what,
        description="Takes campaigns of a clean commit into docs/measured/data and renews the "
        "tables of their page. Without DIR it renews every page from the published records. "
        "Status 1: some campaigns were refused; the others are published.",
    )
    parser.add_argument("directories", type=Path, metavar="DIR", nargs="*", help="result directory")
    what = "print the tables of these campaigns and write nothing"
    parser.add_argument("--show", action="store_true", help=what)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from tcplab.results.read import ResultsError
    from tcplab.studies import publish

    if not publish.MEASURED.is_dir():
        print("tcplab publish: run it in a checkout of tcpilot", file=sys.stderr)
        return 1
    if not options.show:
        written, refused = publish.publish(options.directories)
        for path in written:
            print(path)
        for problem in refused:
            print(f"tcplab publish: {problem}", file=sys.stderr)
        return 1 if refused else 0
    if not options.directories:
        print("tcplab publish: --show needs a result directory", file=sys.stderr)
        return 2
    try:
        print("\n".join(map(publish.shown, options.directories)), end="")
    except ResultsError as problem:
        print(f"tcplab publish: {problem}", file=sys.stderr)
        return 2
    return 0
