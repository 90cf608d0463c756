"""What the learner reaches in campaigns: change, choice-utility, cold, interference, long.

python -m tcplab.studies.learner judge DIR       which cells of a campaign reach what they have to
python -m tcplab.studies.learner publish DIR…    good cells into docs/measured, and its page anew
python -m tcplab.studies.learner publish         the page anew, from the records that are there
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies import cells
from tcplab.studies.learner import judge, records, tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0 if all is well, 1 if a cell misses its bound, 2 if there is nothing to judge."""
    name = "tcplab.studies.learner"
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["judge", "publish"])
    parser.add_argument("folders", metavar="DIR", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.what == "judge":
            return _judge(options.folders)
        cells.publish("learner", options.folders, records.of_campaign, tables.renewed)
        return 0
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
