"""The command line `python -m tcplab.vm`: parses, calls, prints.  Errors are one line each."""

from __future__ import annotations

import argparse
import signal
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

from tcplab.vm import extra, kernels, packages, roots
from tcplab.vm.cache import cache_dir, tree_bytes
from tcplab.vm.errors import UnknownNameError, VmError
from tcplab.vm.machine import Machine, run
from tcplab.vm.process import Interrupted

# As in env(1) and docker(1): the machine itself failed, not the command.
HARNESS_FAILED = 125

_EXAMPLES = """\
examples:
  python -m tcplab.vm setup                          install the Debian packages needed
  python -m tcplab.vm run --kernel 7.2 -- uname -r
  python -m tcplab.vm run --kernel 6.1 --module tcp_bbr --rw results -- ./scenario.sh
  python -m tcplab.vm run --kernel 6.18 --virtual-time -- sleep 60   takes seconds
  python -m tcplab.vm matrix --kernels 6.1,7.2 -- ./target/release/selftest

The command sees the host's files and may write anywhere, but only what it writes below an
--rw folder is kept.  Its exit status is ours; 125 means that the machine failed.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit status."""
    options = make_parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except VmError as problem:
        print(f"tcplab.vm: {problem}", file=sys.stderr)
        return HARNESS_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Interrupted as ended:
        return 128 + ended.number


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tcplab.vm",
        description="Run commands under Debian's kernels, in a machine that shares our files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="SUBCOMMAND")

    listing = commands.add_parser("list", help="kernels: cached or not, version, size")
    listing.set_defaults(action=_list)

    fetching = commands.add_parser("fetch", help="download kernels into the cache")
    fetching.add_argument("names", nargs="+", metavar="NAME", help="a kernel's name, or all")
    fetching.set_defaults(action=_fetch)

    running = commands.add_parser(
        "run",
        help="run a command under one kernel",
        usage="%(prog)s --kernel NAME [OPTION]… -- COMMAND…",
    )
    running.add_argument(
        "--kernel",
        required=True,
        metavar="NAME|IMAGE[:DIR]",
        help="see the list command; or your own bzImage, with the folder of its lib/modules",
    )
    _add_machine_options(running)
    running.set_defaults(action=_run)

    matrix = commands.add_parser(
        "matrix",
        help="run a command under several kernels in turn",
        usage="%(prog)s --kernels NAME,NAME… [OPTION]… -- COMMAND…",
    )
    matrix.add_argument("--kernels", required=True, metavar="NAMES", help="comma-separated, or all")
    _add_machine_options(matrix)
    matrix.set_defaults(action=_matrix)

    module = commands.add_parser(
        "module", help="build and cache a module that Debian's kernel leaves out"
    )
    module.add_argument("name", help="such as sch_dualpi2; kernels.toml has them")
    module.add_argument("--kernel", required=True, metavar="NAME", help="see the list command")
    module.set_defaults(action=_module)

    root = commands.add_parser("root", help="build and cache another user land, such as sid")
    root.add_argument("name", choices=roots.names())
    root.set_defaults(action=_root)

    setup = commands.add_parser("setup", help="install the Debian packages that are missing")
    setup.add_argument("--dry-run", action="store_true", help="only name them")
    setup.set_defaults(action=_setup)
    return parser


def _add_machine_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--cpus", type=int, default=1, metavar="N", help="processors (default: 1)")
    add("--memory", default="1G", metavar="SIZE", help="for instance 512M or 2G (default: 1G)")
    add("--timeout", type=float, metavar="S", help="wall seconds for boot and command together")
    add(
        "--virtual-time",
        action="store_true",
        help="the guest's clock counts instructions (1 ns each) and idle time is skipped, so "
        "that results do not depend on this host's load",
    )
    add("--rw", action="append", default=[], type=Path, metavar="DIR", help="keep writes to DIR")
    add("--root", default="/", metavar="NAME|DIR", help="another user land, such as sid")
    add("--systemd", action="store_true", help="boot the root's systemd, with COMMAND as a service")
    add("--module", action="append", default=[], metavar="M", help="modprobe M first")
    add("--sysctl", action="append", default=[], type=pair, metavar="K=V", help="set K first")
    add("--env", action="append", default=[], type=pair, metavar="K=V", help="for the command")
    add("command", nargs="+", metavar="COMMAND", help="after --; runs in this directory")


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def machine_from(options: argparse.Namespace, kernel: str) -> Machine:
    """The machine described by the options."""
    for folder in options.rw:
        if not folder.is_dir():
            raise UnknownNameError(f"--rw {folder} is no directory; create it first")
    if options.virtual_time and options.cpus != 1:
        raise UnknownNameError("--virtual-time needs one CPU; leave --cpus out")
    return Machine(
        kernel=kernel,
        cpus=options.cpus,
        memory=options.memory,
        virtual_time=options.virtual_time,
        timeout_s=options.timeout,
        rw=tuple(options.rw),
        root=roots.resolve(options.root),
        systemd=options.systemd,
        modules=tuple(options.module),
        sysctls=dict(options.sysctl),
        env=dict(options.env),
    )


def _run(options: argparse.Namespace) -> int:
    result = run(
        machine_from(options, options.kernel),
        options.command,
        stdout=sys.stdout.buffer,
        stderr=sys.stderr.buffer,
    )
    return result.status


def _matrix(options: argparse.Namespace) -> int:
    names = kernels.all_names() if options.kernels == "all" else options.kernels.split(",")
    machines = [machine_from(options, kernels.source(name).name) for name in names]
    logs = cache_dir() / "matrix" / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True, exist_ok=True)
    failed = 0
    for machine in machines:
        log = logs / f"{machine.kernel}.log"
        started = time.monotonic()
        passed, remark = _run_logged(machine, options.command, log)
        failed += not passed
        took_s = time.monotonic() - started
        verdict = "PASS" if passed else "FAIL"
        print(f"{machine.kernel:<6} {verdict} {took_s:7.1f} s  {remark}{log}", flush=True)
    print(f"{len(machines) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _run_logged(machine: Machine, command: Sequence[str], log: Path) -> tuple[bool, str]:
    with log.open("wb") as file:
        try:
            status = run(machine, command, stdout=file, stderr=file).status
        except VmError as problem:
            file.write(f"tcplab.vm: {problem}\n".encode())
            return False, f"{problem}; output: "
    return status == 0, "" if status == 0 else f"status {status}; output: "


def _list(_options: argparse.Namespace) -> int:
    for name in kernels.sources():
        kernel = kernels.cached(name)
        if kernel is None:
            print(f"{name:<6} not cached")
        else:
            size_mb = tree_bytes(kernel.folder) / 1e6
            print(f"{name:<6} cached  {kernel.version:<20} {size_mb:5.0f} MB  {kernel.release}")
    return 0


def _fetch(options: argparse.Namespace) -> int:
    names = kernels.all_names() if "all" in options.names else options.names
    for name in names:
        print(kernels.fetch(name).folder)
    return 0


def _module(options: argparse.Namespace) -> int:
    print(extra.fetch(kernels.fetch(options.kernel), options.name))
    return 0


def _root(options: argparse.Namespace) -> int:
    print(roots.fetch(options.name))
    return 0


def _setup(options: argparse.Namespace) -> int:
    missing = packages.missing()
    if not missing:
        print("nothing is missing")
    elif options.dry_run:
        print(textwrap.fill("missing: " + " ".join(missing), break_on_hyphens=False))
    else:
        packages.install(missing)
    return 0
