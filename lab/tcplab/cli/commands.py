"""`tcplab list`, `check` and `run`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from tcplab.engine import binaries
from tcplab.engine.errors import EngineError
from tcplab.engine.job import EngineName, Settings
from tcplab.scenario import Scenario, ScenarioError, find, load, names, selected
from tcplab.vm import own

_TIMEOUT_S = 3600.0
BATCH_MOST = 24
"""Each cell's folder takes a slot of the machine's PCI bus."""
Sub = Any
"""The return type of add_subparsers, a private class."""


def add_list(sub: Sub) -> None:
    parser = sub.add_parser("list", help="campaigns, their cells and their scale")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=_list)


def add_check(sub: Sub) -> None:
    parser = sub.add_parser("check", help="validate a scenario without starting anything")
    parser.add_argument("scenario", metavar="CAMPAIGN_OR_FILE")
    parser.set_defaults(run=_check)


def add_run(sub: Sub) -> None:
    parser = sub.add_parser("run", help="run a campaign, or resume one")
    add = parser.add_argument
    add("scenario", metavar="CAMPAIGN_OR_FILE", nargs="?", help="see the list command")
    add("--quick", action="store_true", help="the form that takes minutes")
    add(
        "--only",
        action="append",
        default=[],
        metavar="AXIS=LABEL[,LABEL]…",
        help="only the sweep's cells with these labels; may be repeated; repetition=N[,N]… keeps "
        "some repetitions, counted from 0",
    )
    add("--engine", choices=("here", "vm"), help="default: vm")
    add(
        "--kernel",
        metavar="NAME|IMAGE[:DIR]",
        help="of the machine: 6.1, 6.12, 6.18, 7.2, or your own bzImage, with the folder of its "
        "lib/modules; default: the scenario's",
    )
    add(
        "--virtual-time",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="tie the machine's clock to its instructions (default with vm: yes)",
    )
    add("--jobs", type=_jobs, default=1, metavar="N", help="cells side by side (default: 1)")
    most = f"cells to a boot (default: 8; at most {BATCH_MOST})"
    add("--batch", type=_batch, default=8, metavar="N", help=most)
    add("--out", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    add("--resume", type=Path, metavar="DIR", help="go on with a campaign that was broken off")
    add("--rejected", action="store_true", help="with --resume: rejected cells run again, too")
    add(
        "--scheduler",
        metavar="ADDRESS",
        help="run cells on a dask cluster: its address, or 'local' for one of --jobs workers",
    )
    add(
        "--timeout",
        type=float,
        default=_TIMEOUT_S,
        metavar="S",
        help="wall seconds for one cell (default: 3600)",
    )
    add("--binaries", type=Path, metavar="DIR", help="folder of flowgen and tcpilot")
    add("--csv", action="store_true", help="write each table as CSV, too")
    add("--json", action="store_true", help="say on stdout in JSON how it ended")
    parser.set_defaults(run=_run)


def _jobs(text: str) -> int:
    return _number(text, 1024)


def _batch(text: str) -> int:
    return _number(text, BATCH_MOST)


def _number(text: str, most: int) -> int:
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"a number from 1 to {most} is expected")
    return int(text)


def _list(options: argparse.Namespace) -> int:
    rows = []
    for name in names():
        full, quick = load(find(name)), load(find(name), quick=True)
        rows.append(
            {
                "name": name,
                "title": full.top.title,
                "cells": len(full.points) * full.top.repetitions,
                "quick_cells": len(quick.points) * quick.top.repetitions,
                "scale": full.top.scale,
                "machine_only": full.top.machine_only,
            }
        )
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(
            f"{row['name']:<14}{row['cells']:>5} cells, quick {row['quick_cells']:>3}"
            f"  {row['title']}"
        )
        if row["scale"]:
            print(f"{'':<14}scale: {row['scale']}")
        if row["machine_only"]:
            print(f"{'':<14}in a machine only: {row['machine_only']}")
    return 0


def _check(options: argparse.Namespace) -> int:
    path = find(options.scenario)
    wrong: dict[str, None] = {}
    for quick in (False, True):
        if quick and "[quick" not in path.read_text():
            continue
        try:
            scenario = load(path, quick)
        except ScenarioError as problem:
            wrong |= dict.fromkeys(problem.lines)
            continue
        count = len(scenario.points) * scenario.top.repetitions
        print(f"{path}: {'quick form: ' if quick else ''}good, {count} cells")
    if wrong:
        raise ScenarioError(list(wrong))
    return 0


def settings_of(options: argparse.Namespace, scenario: Scenario) -> Settings:
    """How cells are run, from the options and the scenario's defaults."""
    engine: EngineName = options.engine or "vm"
    virtual_time = options.virtual_time
    folder = binaries.folder(options.binaries)
    return Settings(
        engine=engine,
        kernel=own.absolute(options.kernel or scenario.top.kernel),
        virtual_time=engine == "vm" if virtual_time is None else virtual_time,
        flowgen=str(folder / "flowgen"),
        tcpilot=str(folder / "tcpilot"),
        timeout_s=options.timeout,
    )


def _run(options: argparse.Namespace) -> int:
    # These libraries take a second to import, and the other commands do not need them.
    from tcplab.export.csv import write_csv
    from tcplab.results.read import read_campaign
    from tcplab.run import campaign

    if bool(options.scenario) == bool(options.resume):
        print("tcplab: name a campaign or a file, or --resume DIR", file=sys.stderr)
        return 2
    if options.rejected and not options.resume:
        print("tcplab: --rejected is for --resume", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as stack:
        runner, refused = _runner(options, stack)
        scenario, settings, folder = (_resumed if options.resume else _started)(options, refused)
        print(folder, file=sys.stderr)
        outcome = campaign.run(scenario, settings, folder, runner, options.batch)
    if options.csv:
        write_csv(read_campaign(folder))
    return _tell(outcome, options.json)


def _runner(options: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[Any, list[str]]:
    """The runner of batches of jobs; or the reason for a missing cluster."""
    from tcplab.run import cluster, local

    if not options.scheduler:
        return lambda batches: local.run(batches, options.jobs), []
    try:
        return stack.enter_context(cluster.connected(options.scheduler, options.jobs)), []
    except EngineError as problem:
        return None, list(problem.problems)


def _resumed(options: argparse.Namespace, refused: list[str]) -> tuple[Scenario, Settings, Path]:
    from tcplab.results import manifest
    from tcplab.run import campaign

    folder = options.resume.resolve()
    try:
        before = manifest.read(folder)
    except OSError:
        raise EngineError(f"{folder}: there is no campaign to resume") from None
    options.engine, options.kernel = before["engine"], before["kernel_wanted"]
    options.virtual_time = before["virtual_time"]
    scenario = campaign.scenario_of(folder)
    settings = settings_of(options, scenario)
    campaign.resumed(scenario, settings, folder, refused)
    if options.rejected:
        campaign.drop_rejected(folder)
    return scenario, settings, folder


def _started(options: argparse.Namespace, refused: list[str]) -> tuple[Scenario, Settings, Path]:
    from tcplab.results import manifest
    from tcplab.run import campaign

    scenario = selected(load(find(options.scenario), options.quick), options.only)
    settings = settings_of(options, scenario)
    command = manifest.reproduce()
    folder = campaign.start(scenario, settings, options.out, command, options.only, refused)
    return scenario, settings, folder


def _tell(outcome: Any, as_json: bool) -> int:
    if as_json:
        found = {**outcome.__dict__, "folder": str(outcome.folder)}
        print(json.dumps(found))
    else:
        for why, cells in itertools.islice(outcome.errors.items(), 10):
            which = cells[0] if len(cells) == 1 else f"{len(cells)} cells, {cells[0]} the first"
            print(f"tcplab: {which}: {why}", file=sys.stderr)
        print(
            f"{outcome.ok} cells, {outcome.rejected} rejected, {outcome.failed} failed; "
            f"report: {outcome.folder / 'report.html'}"
        )
    return 1 if outcome.failed else 0
