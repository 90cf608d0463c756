"""The command line `python -m tcplab.studies.pilot`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tcplab.results.read import ResultsError, read_campaign
from tcplab.studies.pilot import choice, experiments, judge, records
from tcplab.studies.pilot.experiments import Experiment
from tcplab.studies.pilot.report import render
from tcplab.studies.pilot.runner import ExperimentError, run_experiment
from tcplab.studies.pilot.summary import SUMMARIES
from tcplab.vm import VmError

_REPOSITORY = Path(__file__).resolve().parents[4]
_REPORT = _REPOSITORY / "docs" / "measured" / "results.md"
_DATA = _REPOSITORY / "docs" / "measured" / "data" / "pilot.jsonl"
_RESULTS = _REPOSITORY / "results" / "pilot"
"""Of runs; git ignores it."""

EXPERIMENTS: dict[str, Callable[[bool], Experiment]] = {
    "cost": experiments.cost,
    "tunings": experiments.tunings,
    "short": experiments.short,
    "bulk": experiments.bulk,
    "memory": experiments.memory,
    "scale": experiments.scale,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    if options.experiment == "judge":
        return _judge(options)
    if options.experiment == "report":
        _REPORT.write_text(render(records.load(options.data)))
        print(_REPORT)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    if options.experiment == "publish":
        return _publish(options)
    try:
        for experiment in _chosen(options):
            command = command_line(options, experiment.name)
            outcome = run_experiment(experiment, options.out, options.binaries, command)
            results = SUMMARIES[experiment.name.partition("-")[0]](outcome.sections)
            path = records.save(options.out, {**outcome.provenance, "results": results})
            print(path, flush=True)
    except (ExperimentError, VmError) as problem:
        print(f"tcplab.studies.pilot: {problem}", file=sys.stderr)
        return 1
    return 0


def _judge(options: argparse.Namespace) -> int:
    """Status 0 if all cells pass, 1 if one misses, 2 if there is nothing to judge."""
    try:
        campaign = read_campaign(options.campaign or "")
        found = judge.judge(campaign)
    except ResultsError as problem:
        print(f"tcplab.studies.pilot: {problem}", file=sys.stderr)
        return 2
    except KeyError:
        there = ", ".join(judge.judged())
        print(f"tcplab.studies.pilot: judged are {there}", file=sys.stderr)
        return 2
    print(judge.markdown(found))
    return 0 if found and all(verdict.met for verdict in found) else 1


def _publish(options: argparse.Namespace) -> int:
    """Status 1 if some records may not be published; the others are."""
    refused = records.publish(options.data, records.load(options.out).values())
    for name, wrong in refused.items():
        print(f"tcplab.studies.pilot: {name} is not published: {', '.join(wrong)}", file=sys.stderr)
    print(options.data)
    return 1 if refused else 0


def command_line(options: argparse.Namespace, experiment: str) -> str:
    """The command that makes this experiment's results again, wherever the folders are."""
    name, _, condition = experiment.partition("-")
    words = ["python -m tcplab.studies.pilot", name]
    words += [f"--only {condition}"] if condition else []
    words += ["--quick"] if options.quick else []
    return " ".join(words)


def _chosen(options: argparse.Namespace) -> list[Experiment]:
    if options.experiment == "choice":
        names = options.only or list(choice.CONDITIONS)
        return [choice.experiment(choice.CONDITIONS[name], options.quick) for name in names]
    return [EXPERIMENTS[options.experiment](options.quick)]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tcplab.studies.pilot", description=__doc__)
    parser.add_argument(
        "experiment", choices=["choice", *EXPERIMENTS, "publish", "report", "judge"]
    )
    parser.add_argument(
        "campaign", nargs="?", type=Path, metavar="DIR", help="judge: a result directory"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument(
        "--out",
        type=Path,
        default=_RESULTS,
        metavar="DIR",
        help="folder of the records, for runs and for publish (default: results/pilot)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=_DATA,
        metavar="FILE",
        help="the published records, which report reads (default: docs/measured/data/pilot.jsonl)",
    )
    parser.add_argument(
        "--binaries",
        type=Path,
        default=_REPOSITORY / "target" / "release",
        metavar="DIR",
        help="folder of tcpilot and flowgen (default: target/release)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(choice.CONDITIONS),
        help="choice: this condition alone; may be repeated",
    )
    return parser
