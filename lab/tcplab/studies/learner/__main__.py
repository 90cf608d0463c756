"""Judges campaigns change, choice-utility, cold, interference and long.

python -m tcplab.studies.learner judge DIR…       which cells of a campaign reach what they have to
python -m tcplab.studies.learner coverage DIR…    of campaign coverage: how often intervals hold
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies.learner import coverage, judge


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0 if all is well, 1 if a cell misses its bound, 2 if there is nothing to judge."""
    name = "tcplab.studies.learner"
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["judge", "coverage"])
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    try:
        options = parser.parse_args(arguments)
        return {"judge": _judge, "coverage": _coverage}[options.what](options.folders)
    except ResultsError as problem:
        print(f"{name}: {problem}", file=sys.stderr)
    except KeyError:
        print(f"{name}: judged are {', '.join(judge.judged())}", file=sys.stderr)
    return 2


def _judge(folders: Sequence[Path]) -> int:
    found = []
    for folder in folders:
        campaign = read_campaign(folder)
        found += judge.judge(campaign.name, judge.runs_of(campaign))
    if not found:
        raise ResultsError("there is nothing to judge: name a folder of results with good cells")
    print(judge.markdown(found))
    return 0 if all(verdict.met for verdict in found) else 1


def _coverage(folders: Sequence[Path]) -> int:
    found = coverage.counts(cell for folder in folders for cell in read_campaign(folder).cells())
    if not found:
        raise ResultsError("no interval to count: name results of coverage with static algorithms")
    print(coverage.markdown(found))
    return 0 if all(count.met for count in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
