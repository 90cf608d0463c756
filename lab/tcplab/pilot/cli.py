"""The command line `python -m tcplab.pilot`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tcplab.pilot import choice, experiments
from tcplab.pilot.experiments import Experiment
from tcplab.pilot.runner import ExperimentError, VmError, command_line, run_experiment, save
from tcplab.pilot.summary import SUMMARIES

_REPOSITORY = Path(__file__).resolve().parents[3]
_RESULTS = _REPOSITORY / "lab" / "results" / "pilot"

EXPERIMENTS: dict[str, Callable[[bool], Experiment]] = {
    "cost": experiments.cost,
    "short": experiments.short,
    "bulk": experiments.bulk,
    "memory": experiments.memory,
    "scale": experiments.scale,
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = make_parser().parse_args(given)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        for experiment in _chosen(options):
            outcome = run_experiment(experiment, options.out, options.binaries, command_line(given))
            results = SUMMARIES[experiment.name.partition("-")[0]](outcome.sections)
            path = save(options.out, experiment.name, {**outcome.provenance, "results": results})
            print(path)
    except (ExperimentError, VmError) as problem:
        print(f"tcplab.pilot: {problem}", file=sys.stderr)
        return 1
    return 0


def _chosen(options: argparse.Namespace) -> list[Experiment]:
    if options.experiment == "choice":
        names = options.only or list(choice.CONDITIONS)
        return [choice.experiment(choice.CONDITIONS[name], options.quick) for name in names]
    return [EXPERIMENTS[options.experiment](options.quick)]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tcplab.pilot", description=__doc__)
    parser.add_argument("experiment", choices=["choice", *EXPERIMENTS])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="DIR")
    parser.add_argument(
        "--binaries",
        type=Path,
        default=_REPOSITORY / "target" / "release",
        metavar="DIR",
        help="where tcpilot and flowgen are (default: target/release)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(choice.CONDITIONS),
        help="choice: this condition alone; may be repeated",
    )
    return parser
