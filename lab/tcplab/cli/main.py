"""The command line `tcplab`: parses, calls, prints.  Errors are one line each.

Exit status: 0 done, 1 something failed, 2 wrong usage or a wrong scenario, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tcplab.engine.errors import EngineError
from tcplab.scenario import ScenarioError
from tcplab.vm.process import Interrupted, cleanup_on_signals

_EXAMPLES = """\
examples:
  tcplab list
  tcplab run choice --quick
  tcplab run my.toml --engine here --out /var/tmp/results
  tcplab run fairness --engine vm --kernel 6.12 --virtual-time --jobs 2
  tcplab run --resume results/latest
  tcplab report results/latest
  tcplab table results/latest
  tcplab diff results/fairness-A results/fairness-B
  tcplab publish results/latest
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit status."""
    options = make_parser().parse_args(arguments)
    try:
        with cleanup_on_signals():
            status = int(options.run(options))
            sys.stdout.flush()
            return status
    except ScenarioError as problem:
        print("\n".join(f"tcplab: {line}" for line in problem.lines), file=sys.stderr)
        return 2
    except EngineError as problem:
        print("\n".join(f"tcplab: {line}" for line in problem.problems), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has enough, as head does.  Python would say so at its end, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as problem:
        print(f"tcplab: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Interrupted as ended:
        return 128 + ended.number


def make_parser() -> argparse.ArgumentParser:
    from tcplab.cli import commands
    from tcplab.cli.publish import add_publish
    from tcplab.diff.cli import add_diff
    from tcplab.export.cli import add_export
    from tcplab.metrics.cli import add_metrics
    from tcplab.report.cli import add_report, add_table

    parser = argparse.ArgumentParser(
        prog="tcplab",
        description="Congestion-control experiments: run, compare, report.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_list(sub)
    commands.add_check(sub)
    commands.add_run(sub)
    for add in (add_report, add_table, add_diff, add_metrics, add_export, add_publish):
        add(sub)
    return parser
