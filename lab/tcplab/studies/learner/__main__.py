"""Judges campaigns change, choice-utility, cold, interference and long.

python -m tcplab.studies.learner judge DIR…    which cells of a campaign reach what they have to
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies.learner import judge


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0 if all is well, 1 if a cell misses its bound, 2 if there is nothing to judge."""
    name = "tcplab.studies.learner"
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["judge"])
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    try:
        return _judge(parser.parse_args(arguments).folders)
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


if __name__ == "__main__":
    raise SystemExit(main())
