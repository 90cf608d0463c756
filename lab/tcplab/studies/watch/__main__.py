"""`python -m tcplab.studies.watch COMMAND`: from recordings to a model, and its recall and cost.

The figures of docs/measured/watch-recall.md, and a model, from the tables in docs/measured/data:

D=docs/measured/data
tcplab publish
python -m tcplab.studies.watch train --out few.json $D/watch-samples.parquet.xz
python -m tcplab.studies.watch judge --by few.json $D/watch-rounds.parquet.xz

These are small parts of the recordings.  The whole ones are in the history of this repository:

python -m tcplab.studies.watch whole               # into .cache/watch
python -m tcplab.studies.watch train .cache/watch/watch-samples*.parquet    # the shipped model
python -m tcplab.studies.watch shrink              # the small tables
python -m tcplab.studies.watch remake              # all three, and whether they are the same
python -m tcplab.studies.watch figures             # the page of the whole recordings, on stdout

The extrapolation model, for paths beyond the recorded ones, and its verdicts on other simulated
paths:

python -m tcplab.studies.watch train --extrapolation .cache/watch/watch-samples*.parquet
python -m tcplab.studies.watch simulate --seed 9 --rates 1000 10000 far.parquet
python -m tcplab.studies.watch judge --by bpf/watch/model.json.gz \
    --extrapolation bpf/watch/wide_model.json.gz far.parquet

From recordings:

for c in short long mixed; do tcplab run watch-native-$c --engine here; done
python -m tcplab.studies.watch judge results/watch*-2*     # each path by a model of the others
python -m tcplab.studies.watch train results/watch*-2*     # the model, from all of them
python -m tcplab.studies.watch keep --samples FILE results/watch*-2*   # for train
python -m tcplab.studies.watch keep --rounds FILE results/watch-native-test-2*   # for judge

# How probable the model's verdicts are, from recordings that it has not learned from:
python -m tcplab.studies.watch calibrate results/watch-native-anywhere-2*

# What light tracking saves and misses, by the votes that it asks for:
python -m tcplab.studies.watch light

python -m tcplab.studies.watch cost                # instructions per packet, in virtual time
python -m tcplab.studies.watch cost --limit lru    # the least that the same hooks cost
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from tcplab.engine import binaries
from tcplab.engine.bpf import compiled
from tcplab.studies.watch import (
    compare,
    cost,
    coverage,
    figures,
    gains,
    judge,
    kept,
    light,
    native,
    quic,
    readings,
    reliability,
    shrink,
    simulated,
    traces,
    train,
    whole,
)
from tcplab.vm import Machine, run

_LIMIT = Path(cost.__file__).with_name("limit.bpf.c")
_MODELS = Path(__file__).parents[4] / "bpf" / "watch"
_MODEL = "model.json.gz"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tcplab.studies.watch", description=__doc__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, what in (
        ("train", "write the model"),
        ("judge", "cross-validate by path"),
        ("readings", "compare the open readings of P4air's rules"),
        ("keep", "write the parts of recordings that training and judging read"),
        ("calibrate", "write into a model how probable its verdicts are, from teaching recordings"),
        ("gains", "what each feature gains on recordings kept apart"),
    ):
        command = sub.add_parser(name, help=what)
        what = "folder of results, or file of `keep`"
        command.add_argument("campaigns", metavar="CAMPAIGN", type=Path, nargs="+", help=what)
        if name == "readings":
            what = "judge after each interval, and not at the end"
            command.add_argument("--each-interval", action="store_true", help=what)
        if name == "train":
            command.add_argument("--out", type=Path, metavar="FILE")
            what = "with simulated flows, for paths beyond those of the recordings"
            command.add_argument("--extrapolation", action="store_true", help=what)
            _hide(command, "--wide", "extrapolation", action="store_true")
        elif name in ("calibrate", "gains"):
            command.add_argument("--by", type=Path, metavar="MODEL", default=_MODELS / _MODEL)
        elif name == "judge":
            what = "judge by this finished model, which must not know these paths"
            command.add_argument("--by", type=Path, metavar="MODEL", help=what)
            what = "with --by: the model for paths beyond that one's"
            command.add_argument("--extrapolation", type=Path, metavar="MODEL", help=what)
            _hide(command, "--wide", "extrapolation", type=Path)
            what = "as if the watch had begun so many rounds after each flow"
            command.add_argument("--after", type=int, default=0, metavar="ROUNDS", help=what)
            what = "track settled flows lightly, as a watch does unless it records (with --by)"
            command.add_argument("--light-tracking", action="store_true", help=what)
            _hide(command, "--naps", "light_tracking", action="store_true")
        elif name == "keep":
            command.add_argument("--samples", type=Path, metavar="FILE", help="for train")
            command.add_argument("--rounds", type=Path, metavar="FILE", help="for judge")
            command.add_argument("--most", type=int, metavar="N", help="rounds of a flow")
        what = "of the flows of QUIC, which have a model of their own"
        command.add_argument("--quic", action="store_true", help=what)
    for name, what in (
        ("whole", "write the whole recordings, from this repository's history"),
        ("shrink", "make the small tables in docs/measured/data from the whole ones"),
        ("remake", "compare model and small tables with those that the whole recordings make"),
        ("figures", "print the page of figures, of the whole recordings"),
    ):
        command = sub.add_parser(name, help=what)
        what = "folder of the whole recordings (.cache/watch)"
        command.add_argument("folder", type=Path, metavar="DIR", nargs="?", help=what)
    sub.add_parser("light", help="compare the votes that light tracking asks for")
    _add_simulate(sub)
    _add_cost(sub)
    options = parser.parse_args()
    commands = {"cost": _cost, "simulate": _simulate, "light": _light}
    commands |= dict.fromkeys(("whole", "shrink", "remake", "figures"), _of_whole)
    return commands.get(options.command, _learn)(options)


def _hide(command: argparse.ArgumentParser, old: str, new: str, **how: Any) -> None:
    """Accepts an option's name of before for one more version, without showing it."""
    command.add_argument(old, dest=new, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **how)


def _add_simulate(sub: Any) -> None:
    command = sub.add_parser("simulate", help="write the rounds of simulated flows, for judge")
    command.add_argument("file", metavar="FILE", type=Path)
    command.add_argument("--paths", type=int, default=40, metavar="N", help="at random")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="that draws them")
    command.add_argument(
        "--rates",
        type=float,
        nargs=2,
        default=simulated.RATES_MBIT,
        metavar="MBIT",
        help="the least and the most",
    )


def _simulate(options: argparse.Namespace) -> int:
    found = list(simulated.campaign(options.paths, options.seed, tuple(options.rates)))
    kept.write_rounds(found, ["simulated"] * len(found), options.file)
    print(f"{options.file}: {len(found)} flows on {len({t.path for t in found})} paths")
    return 0


def _light(_: argparse.Namespace) -> int:
    print(light.table(_progress), end="")
    return 0


def _progress(text: str) -> None:
    print(text, file=sys.stderr)


def _of_whole(options: argparse.Namespace) -> int:
    folder = options.folder or whole.FOLDER
    try:
        files = whole.restore(folder)
        wrong = whole.remake(_progress, folder) if options.command == "remake" else []
    except whole.MissingError as error:
        print(f"tcplab.studies.watch: {error}", file=sys.stderr)
        return 1
    if options.command == "shrink":
        shrink.rounds(folder, figures.ROUNDS)
        shrink.samples([path for path in files if "samples" in path.name], figures.SAMPLES)
    elif options.command == "whole":
        print("\n".join(map(str, files)))
    elif options.command == "figures":
        print(figures.page(_progress, folder), end="")
    else:
        print(f"different: {', '.join(wrong)}" if wrong else "the same")
    return int(bool(wrong))


def _add_cost(sub: Any) -> None:
    command = sub.add_parser("cost", help="measure the cost of watching a packet")
    command.add_argument("--here", action="store_true", help="nanoseconds on this host; needs root")
    command.add_argument("--kernel", default="6.1", metavar="NAME", help="of the machine")
    command.add_argument("--binaries", type=Path, metavar="DIR", help="folder of flowgen, tcpilot")
    command.add_argument("--rate", type=int, metavar="MBIT", help="of the link")
    command.add_argument("--seconds", type=int, metavar="N", help="how long flows send")
    what = "seconds before that, so that flows settle"
    command.add_argument("--warm", type=int, default=0, metavar="N", help=what)
    what = "with --here: more options of tcpilot watch"
    command.add_argument("--watch", default="", metavar="WORDS", help=what)
    what = "super-packets of up to 64 KB, as on a host with GSO and GRO"
    command.add_argument("--offloads", action="store_true", help=what)
    what = "measure limit.bpf.c up to this step instead of the watch"
    command.add_argument("--limit", choices=[step.name.lower() for step in cost.Step], help=what)
    what = "in a machine: measure a call of an empty program, and what the statistics add to it"
    command.add_argument("--clock", action="store_true", help=what)
    what = "hooks of tc (6.6) where the limit can do with them"
    command.add_argument("--tcx", action="store_true", help=what)


def _cost(options: argparse.Namespace) -> int:
    folder, limit = binaries.folder(options.binaries), None
    if options.clock:
        options.limit, options.tcx = "empty", True
    if options.limit:
        parts = [f"-DSTEP={cost.Step[options.limit.upper()]:d}", *["-DTCX"] * options.tcx]
        limit = compiled(_LIMIT, "the limit", ["-mcpu=v3", *parts], form="".join(parts))
    if options.here:
        rate, seconds = options.rate or 400, options.seconds or 10
        more = tuple(options.watch.split())
        plan = cost.Plan(folder, rate, seconds, options.warm, False, limit, more, options.offloads)
        print(json.dumps(cost.measure(plan)))
        return 0
    rate, seconds = options.rate or 20, options.seconds or 20
    words = ["python3", cost.__file__, str(folder), str(rate), str(seconds), str(options.warm)]
    words += [str(int(options.offloads)), *[str(limit)] * bool(limit)]
    if options.clock:
        words = ["python3", cost.__file__, "clock", str(limit)]
    modules = ("sch_netem", "sch_tbf")
    machine = Machine(options.kernel, virtual_time=True, timeout_s=1800, modules=modules)
    result = run(machine, words)
    print(result.stdout.decode(), end="")
    if result.status:
        print(f"tcplab.studies.watch: {result.stderr.decode().strip()}", file=sys.stderr)
    return result.status


def _learn(options: argparse.Namespace) -> int:
    # A forest depends on the order of its rows, and shells order names by the user's language.
    files = sorted(path for path in options.campaigns if path.is_file())
    if options.command == "train" and files:
        folders = traces.load([p for p in options.campaigns if not p.is_file()], options.quic)
        parts = [kept.read_samples(f) for f in files]
        parts += [train.table(folders)] if folders else []
        return _train(train.together(parts), options)
    campaigns, found = _loaded(options.campaigns, options.quic)
    if not found:
        print("tcplab.studies.watch: there is no recording; run: tcplab run watch", file=sys.stderr)
        return 1
    paths = sorted({t.path for t in found})
    print(f"{len(found)} flows on {len(paths)} paths: {'; '.join(paths)}", file=sys.stderr)
    return _of_traces(campaigns, found, options)


def _of_traces(campaigns: list[str], found: list[traces.Trace], options: argparse.Namespace) -> int:
    if options.command == "train":
        return _train(train.table(found), options)
    if options.command == "keep":
        if options.samples:
            kept.write_samples(found, campaigns, options.samples)
        if options.rounds:
            kept.write_rounds(found, campaigns, options.rounds, options.most)
        return 0
    if options.command == "calibrate":
        return _calibrate(found, options.by)
    if options.command == "gains":
        sets = gains.by_campaign(campaigns, found)
        gained, told = gains.gains(sets, train.read(options.by))
        print(f"{told}\n\n{gains.table(gained)}")
        return 0
    if options.command == "readings":
        bulk = [t for t in found if t.kind == traces.BULK]
        print(readings.text(readings.recall(bulk, options.each_interval)))
        return 0
    return _judge(found, options)


def _loaded(places: list[Path], of_quic: bool) -> tuple[list[str], list[traces.Trace]]:
    """The traces of folders and files, with the names of their campaigns."""
    campaigns: list[str] = []
    found: list[traces.Trace] = []
    for place in places:
        more = kept.read_rounds(place) if place.is_file() else traces.load([place], of_quic)
        campaigns += [place.name.rsplit("-", 1)[0]] * len(more)
        found += more
    return campaigns, found


def _train(rows: pd.DataFrame, options: argparse.Namespace) -> int:
    name = "quic_model.json.gz" if options.quic else _MODEL
    if options.extrapolation:
        name, forest = "wide_model.json.gz", train.extrapolation(rows, simulated.training())
    else:
        forest = train.fit(rows, options.quic, 1 if options.quic else train.SEED)
    model, out = train.as_json(forest), options.out or _MODELS / name
    train.write(model, out)
    print(f"{out}: {len(model['roots'])} trees, {len(model['nodes'])} nodes")
    return 0


def _calibrate(found: list[traces.Trace], path: Path) -> int:
    """The model must know none of these flows."""
    model = train.read(path)
    bulk = [t for t in found if t.kind == traces.BULK]
    model["calibration"] = reliability.calibration(judge.by_finished(bulk, model))
    train.write(model, path)
    print(f"{path}: {json.dumps(model['calibration'])}")
    return 0


def _judge(found: list[traces.Trace], options: argparse.Namespace) -> int:
    found = traces.joined(found, options.after) if options.after else found
    # Kept rounds are without P4air's intervals, and it counts acknowledgements, hidden by QUIC.
    p4air = [judge.by_p4air(t) for t in found if len(t.flow.intervals) and not t.is_quic]
    if p4air:
        _say("P4air's rules", p4air)
    _say("Our rules, without trees", [judge.by_model(t, native.no_model(), []) for t in found])
    if options.by:
        model = train.read(options.by)
        beyond = train.read(options.extrapolation) if options.extrapolation else None
        ours = judge.by_finished(found, model, options.light_tracking, beyond)
        _say_ours(p4air, ours, f"Ours, by {options.by.name}")
        if options.quic:
            print(quic.table(found, ours))
    elif len({t.path for t in found}) > 1:
        ours = judge.cross_validated(found, _progress)
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
    print(f"By name, among few\n\n{coverage.few(ours)}")
    if point := compare.at_operating_point(ours):
        print(f"At P4air's operating point\n\n{judge.summary(point)}")
    clear = [o for o in ours if not o.is_twin]
    print(f"Without YeAH when it is Reno or Westwood by its law\n\n{judge.summary(clear)}")
    print(judge.table(clear))
    print(f"{judge.confusion(ours)}\nBy path\n\n{judge.by_path(ours)}")
    if p4air:
        print(compare.table(p4air, ours))


def _say(title: str, outcomes: list[judge.Outcome]) -> None:
    print(f"{title}\n\n{judge.table(outcomes)}\n{judge.summary(outcomes)}")


if __name__ == "__main__":
    sys.exit(main())
