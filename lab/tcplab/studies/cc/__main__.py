"""Prints the tables of a campaign `modules` or `laws`.

python -m tcplab.studies.cc results/modules-… …
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies.cc import laws, modules


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tcplab.studies.cc",
        description="Tables of a campaign `modules`, the kernel's congestion controls and ours, or "
        "`laws`, ours and their laws.",
    )
    what = "result directories, parts of one campaign"
    parser.add_argument("campaigns", type=Path, metavar="DIR", nargs="+", help=what)
    options = parser.parse_args()
    try:
        campaigns = [read_campaign(folder) for folder in options.campaigns]
        names = {campaign.name for campaign in campaigns}
        if names not in ({"laws"}, {"modules"}):
            raise ResultsError(f"{', '.join(sorted(names))}: not modules alone, or laws alone")
        found = modules.pairs(campaigns)
    except ResultsError as problem:
        print(f"tcplab.studies.cc: {problem}", file=sys.stderr)
        return 2
    if names == {"laws"}:
        print(laws.table([one for campaign in campaigns for one in laws.of_campaign(campaign)]))
        print(modules.table(found), end="")
        return 0
    print(modules.overview(found), modules.table(found), modules.costs(found), sep="\n", end="")
    print(f"{modules.outside(found)} figures of {3 * len(found)} are outside of their bounds")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
