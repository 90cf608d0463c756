"""The command line `python -m tcplab.studies.pilot`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tcplab.results.read import ResultsError
from tcplab.studies.pilot import records
from tcplab.studies.pilot.report import render, sections

_MEASURED = Path(__file__).resolve().parents[4] / "docs" / "measured"
_PROGRAM = "tcplab.studies.pilot"


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except ResultsError as problem:
        print(f"{_PROGRAM}: {problem}", file=sys.stderr)
        return 2


def _show(options: argparse.Namespace) -> int:
    found = {record["experiment"]: record for record in records.of_campaign(options.campaign)}
    print("\n\n".join(sections(found)))
    return 0


def _publish(options: argparse.Namespace) -> int:
    """Status 1 if some records may not be published; the others are."""
    made = [record for folder in options.campaigns for record in records.of_campaign(folder)]
    refused = records.publish(options.data, made)
    for name, wrong in refused.items():
        print(f"{_PROGRAM}: {name} is not published: {', '.join(wrong)}", file=sys.stderr)
    print(options.data)
    return 1 if refused else 0


def _report(options: argparse.Namespace) -> int:
    options.page.write_text(render(records.load(options.data)))
    print(options.page)
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {_PROGRAM}", description=__doc__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    said = {
        "show": "a campaign's tables and targets, as the page has them",
        "publish": "put the records of whole campaigns of a clean commit into the data",
        "report": "write the page from all published records",
    }
    known = {"show": _show, "publish": _publish, "report": _report}
    made = {name: sub.add_parser(name, help=text) for name, text in said.items()}
    for name, command in made.items():
        command.set_defaults(run=known[name])
    made["show"].add_argument("campaign", type=Path, metavar="DIR", help="a result directory")
    made["publish"].add_argument("campaigns", type=Path, nargs="+", metavar="DIR")
    for name in ("publish", "report"):
        made[name].add_argument(
            "--data",
            type=Path,
            default=_MEASURED / "data" / "pilot.jsonl.xz",
            metavar="FILE",
            help="the published records (default: docs/measured/data/pilot.jsonl.xz)",
        )
    made["report"].add_argument(
        "--page",
        type=Path,
        default=_MEASURED / "results.md",
        metavar="FILE",
        help="default: docs/measured/results.md",
    )
    return parser
