"""`python -m tcplab.studies.watch train|judge|cost`: from recordings to a model; how good it is.

for c in watch watch-shared watch-alike watch-long; do tcplab run $c --kernel 6.1; done
python -m tcplab.studies.watch judge results/watch*-2*     # each path by a model of the others
python -m tcplab.studies.watch train results/watch*-2*     # bpf/watch/model.json from all of them
# paths kept apart:
python -m tcplab.studies.watch judge --by bpf/watch/model.json results/watch-test-2*
python -m tcplab.studies.watch cost                # instructions per packet, in virtual time
python -m tcplab.studies.watch cost --limit lru    # the least that the same hooks cost
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tcplab.cli.commands import binaries
from tcplab.engine.bpf import compiled
from tcplab.studies.watch import (
    compare,
    cost,
    coverage,
    judge,
    native,
    quic,
    readings,
    traces,
    train,
)
from tcplab.vm import Machine, run

_LIMIT = Path(cost.__file__).with_name("limit.bpf.c")
_MODELS = Path(__file__).parents[4] / "bpf" / "watch"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tcplab.studies.watch", description=__doc__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, what in (
        ("train", "write the model"),
        ("judge", "cross-validate by path"),
        ("readings", "compare the open readings of P4air's rules"),
    ):
        command = sub.add_parser(name, help=what)
        command.add_argument("campaigns", metavar="CAMPAIGN", type=Path, nargs="+")
        if name == "train":
            command.add_argument("--out", type=Path, metavar="FILE")
        elif name == "judge":
            what = "judge by this finished model, which must not know these paths"
            command.add_argument("--by", type=Path, metavar="MODEL", help=what)
        what = "of the flows of QUIC, which have a model of their own"
        command.add_argument("--quic", action="store_true", help=what)
    _add_cost(sub)
    options = parser.parse_args()
    if options.command == "cost":
        return _cost(options)
    return _learn(options)


def _add_cost(sub: Any) -> None:
    command = sub.add_parser("cost", help="measure the cost of watching a packet")
    command.add_argument("--here", action="store_true", help="nanoseconds on this host; needs root")
    command.add_argument("--kernel", default="6.1", metavar="NAME", help="of the machine")
    command.add_argument("--binaries", type=Path, metavar="DIR", help="folder of flowgen, tcpilot")
    command.add_argument("--rate", type=int, metavar="MBIT", help="of the link")
    command.add_argument("--seconds", type=int, metavar="N", help="how long flows send")
    what = "seconds before that, so that flows settle"
    command.add_argument("--warm", type=int, default=0, metavar="N", help=what)
    what = "measure limit.bpf.c up to this step instead of the watch"
    command.add_argument("--limit", choices=[step.name.lower() for step in cost.Step], help=what)
    what = "hooks of tc (6.6) where the limit can do with them"
    command.add_argument("--tcx", action="store_true", help=what)


def _cost(options: argparse.Namespace) -> int:
    folder, limit = binaries(options), None
    if options.limit:
        parts = [f"-DSTEP={cost.Step[options.limit.upper()]:d}", *["-DTCX"] * options.tcx]
        limit = compiled(_LIMIT, "the limit", ["-mcpu=v3", *parts], form="".join(parts))
    if options.here:
        rate, seconds = options.rate or 400, options.seconds or 10
        plan = cost.Plan(folder, rate, seconds, options.warm, False, limit)
        print(json.dumps(cost.measure(plan)))
        return 0
    rate, seconds = options.rate or 20, options.seconds or 20
    words = ["python3", cost.__file__, str(folder), str(rate), str(seconds), str(options.warm)]
    words += [str(limit)] * bool(limit)
    modules = ("sch_netem", "sch_tbf")
    machine = Machine(options.kernel, virtual_time=True, timeout_s=1800, modules=modules)
    result = run(machine, words)
    print(result.stdout.decode(), end="")
    if result.status:
        print(f"tcplab.studies.watch: {result.stderr.decode().strip()}", file=sys.stderr)
    return result.status


def _learn(options: argparse.Namespace) -> int:
    found = traces.load(options.campaigns, options.quic)
    if not found:
        print("tcplab.studies.watch: there is no recording; run: tcplab run watch", file=sys.stderr)
        return 1
    paths = sorted({t.path for t in found})
    print(f"{len(found)} flows on {len(paths)} paths: {'; '.join(paths)}", file=sys.stderr)
    if options.command == "train":
        model = train.as_json(train.fit(found))
        out = options.out or _MODELS / ("quic_model.json" if options.quic else "model.json")
        train.write(model, out)
        print(f"{out}: {len(model['roots'])} trees, {len(model['nodes'])} nodes")
        return 0
    if options.command == "readings":
        print(readings.text(readings.recall([t for t in found if t.kind == traces.BULK])))
        return 0
    # P4air counts acknowledgements, and QUIC shows none.
    p4air = [] if options.quic else [judge.by_p4air(t) for t in found]
    if p4air:
        _say("P4air's rules", p4air)
    _say("Our rules, without trees", [judge.by_model(t, native.no_model(), []) for t in found])
    if options.by:
        model = json.loads(options.by.read_text())
        ours, title = judge.by_finished(found, model), f"Ours, by {options.by}"
        _say_ours(p4air, ours, title)
        if options.quic:
            print(quic.table(found, ours))
    elif len(paths) > 1:
        ours = judge.cross_validated(found, lambda text: print(text, file=sys.stderr))
        _say_ours(p4air, ours, "Ours, on paths that it has not seen")
    return 0


def _say_ours(p4air: list[judge.Outcome], everything: list[judge.Outcome], title: str) -> None:
    ours = [o for o in everything if o.kind == traces.BULK]
    p4air = [o for o in p4air if o.kind == traces.BULK]
    if len(everything) > len(ours):
        print(f"{title}: flows that do not always have data\n\n{coverage.limited(everything)}")
    if not ours:
        return
    _say(title, ours)
    print(f"Verdicts with a least share of the votes\n\n{coverage.curve(ours)}")
    if point := compare.at_operating_point(ours):
        print(f"At P4air's operating point\n\n{judge.summary(point)}")
    clear = [o for o in ours if not o.is_twin]
    print(f"Without YeAH when it is Reno or Westwood by its law\n\n{judge.summary(clear)}")
    print(judge.confusion(ours))
    if p4air:
        print(compare.table(p4air, ours))


def _say(title: str, outcomes: list[judge.Outcome]) -> None:
    print(f"{title}\n\n{judge.table(outcomes)}\n{judge.summary(outcomes)}")


if __name__ == "__main__":
    sys.exit(main())
