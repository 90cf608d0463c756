"""Prints the tables of a campaign `modules` or `laws`.

python -m tcplab.studies.cc results/modules-…
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
    parser.add_argument("campaign", type=Path, metavar="DIR", help="a result directory")
    options = parser.parse_args()
    try:
        campaign = read_campaign(options.campaign)
        if campaign.name == "laws":
            print(laws.table(laws.of_campaign(campaign)), end="\n")
            print(modules.table(modules.pairs(campaign)), end="")
            return 0
        if campaign.name != "modules":
            raise ResultsError(
                f"{options.campaign}: a campaign {campaign.name}, not modules or laws"
            )
        found = modules.pairs(campaign)
    except ResultsError as problem:
        print(f"tcplab.studies.cc: {problem}", file=sys.stderr)
        return 2
    print(modules.table(found), modules.costs(found), sep="\n", end="")
    print(f"{modules.outside(found)} figures of {3 * len(found)} are outside of their bounds")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
