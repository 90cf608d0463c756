"""`python -m tcplab.watch train|judge CAMPAIGN…`: from recordings to the model, and how good it is.

tcplab run watch                                   # the recordings
python -m tcplab.watch judge results/watch-*       # each path by a model of the others
python -m tcplab.watch train results/watch-*       # bpf/watch/model.json from all of them
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tcplab.watch import judge, native, traces, train

_MODEL = Path(__file__).parents[3] / "bpf" / "watch" / "model.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tcplab.watch", description=__doc__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, what in (("train", "write the model"), ("judge", "cross-validate by path")):
        command = sub.add_parser(name, help=what)
        command.add_argument("campaigns", metavar="CAMPAIGN", type=Path, nargs="+")
        if name == "train":
            command.add_argument("--out", type=Path, default=_MODEL, metavar="FILE")
    options = parser.parse_args()
    found = traces.load(options.campaigns)
    if not found:
        print("tcplab.watch: there is no recording; run: tcplab run watch", file=sys.stderr)
        return 1
    paths = sorted({t.path for t in found})
    print(f"{len(found)} flows on {len(paths)} paths: {'; '.join(paths)}", file=sys.stderr)
    if options.command == "train":
        model = train.as_json(train.fit(found))
        train.write(model, options.out)
        print(f"{options.out}: {len(model['roots'])} trees, {len(model['nodes'])} nodes")
        return 0
    p4air = [judge.by_p4air(t) for t in found]
    print(f"P4air's rules\n\n{judge.table(p4air)}\n{judge.summary(p4air)}")
    alone = [judge.by_model(t, native.no_model(), []) for t in found]
    print(f"Our rules, without trees\n\n{judge.table(alone)}\n{judge.summary(alone)}")
    if len(paths) > 1:
        ours = judge.cross_validated(found, lambda text: print(text, file=sys.stderr))
        print(f"Ours, on paths that it has not seen\n\n{judge.table(ours)}\n{judge.summary(ours)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
