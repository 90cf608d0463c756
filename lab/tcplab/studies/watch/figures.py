"""docs/measured/watch-recall.md: the recall of `tcpilot watch` on the recordings kept apart."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcplab.studies.cells import Record
from tcplab.studies.watch import coverage, judge, kept, reliability, simulated, traces, train
from tcplab.studies.watch.traces import Trace

_ROOT = Path(__file__).parents[4]
DATA = _ROOT / "docs/measured/data"
MODELS = _ROOT / "bpf/watch"
ROUNDS = DATA / "watch-rounds.parquet.xz"
SAMPLES = DATA / "watch-samples.parquet.xz"
OF_PAGE = ("model.json.gz", "wide_model.json.gz")
"""The models behind the page."""


@dataclass(frozen=True)
class Kept:
    """A set of recordings kept apart, judged together."""

    title: str
    campaigns: str
    sets: tuple[str, ...]
    """Their names in ROUNDS."""
    is_listed: bool = True
    """It has a section of its own."""


SETS = (
    Kept("FIFO, 18 to 100 Mbit/s", "`watch-native-test`, natively, 6.18", ("native",)),
    Kept(
        "FIFO, 80 to 500 Mbit/s, at random",
        "`watch-native-random-test`, natively, 6.18",
        ("native-random",),
    ),
    Kept("FIFO, 900 Mbit/s and 1 Gbit/s", "`watch-native-fast-test`, natively, 6.18", ("fast",)),
    Kept(
        "these three together",
        "natively, 18 Mbit/s to 1 Gbit/s",
        ("native", "native-random", "fast"),
        is_listed=False,
    ),
    Kept(
        "FIFO, 1.5 and 2 Gbit/s, by the wide forest",
        "`watch-native-faster-test`, natively, 6.18",
        ("faster",),
        is_listed=False,
    ),
    Kept("FIFO, 8 to 20 Mbit/s", "`watch-test`, virtual time, 7.2", ("virtual",)),
    Kept("1.5 to 30 Mbit/s, at random", "`watch-random-test`, virtual time, 7.2", ("random",)),
    Kept("queues beyond FIFO", "`watch-queues-test`, virtual time, 7.2", ("queues",)),
    Kept(
        "queues beyond FIFO and policers, at random",
        "`watch-random-queues-test`, virtual time, 7.2",
        ("random-queues",),
    ),
    Kept("behind a policer", "`watch-policer-test`, virtual time, 7.2", ("policer",)),
)
NATIVE, LIMITED = "native", "limited"
"""Sets by name; LIMITED: application-limited flows."""
ALL_SETS = (*dict.fromkeys(name for one in SETS for name in one.sets), LIMITED)
AFTER = 60
"""Rounds missed by a watch that begins later."""
SIMULATED = ((9, (1000.0, 10_000.0)), (10, (1.0, 1000.0)))
"""Seeds and rates of simulated paths, kept out of all training."""
SIMULATED_PATHS = 40


class Judges:
    """The finished models, and their verdicts on kept recordings."""

    def __init__(self, say: Callable[[str], None], whole: Path | None = None) -> None:
        self.models = [train.read(MODELS / name) for name in OF_PAGE]
        self.say = say
        self.whole = whole

    def of(
        self, found: Sequence[Trace], light_tracking: bool = False, extrapolate: bool = True
    ) -> list[Any]:
        """The verdicts on bulk flows."""
        one, other = self.models
        bulk = [t for t in found if t.kind == traces.BULK]
        return judge.by_finished(bulk, one, light_tracking, other if extrapolate else None)

    def read(self, sets: Sequence[str]) -> list[Trace]:
        self.say(f"judging {', '.join(sets)}")
        if self.whole is None:
            return kept.read_rounds(ROUNDS, sets)
        return [t for name in sets for t in kept.read_rounds(self.whole / whole_name(name))]


def whole_name(name: str) -> str:
    """The file of a set's whole rounds."""
    return "watch-rounds.parquet" if name == NATIVE else f"watch-rounds-{name}.parquet"


def digest() -> str:
    """A digest of the models and recordings behind the page."""
    parts = [train.text(train.read(MODELS / name)).encode() for name in OF_PAGE]
    return hashlib.sha256(b"".join([*parts, ROUNDS.read_bytes()])).hexdigest()[:16]


def renewed(text: str, _: list[Record]) -> str:
    """The page; judged again (minutes) only if models or recordings have changed."""
    return text if digest() in text else page(lambda told: print(told, file=sys.stderr))


def page(say: Callable[[str], None] = lambda _: None, whole: Path | None = None) -> str:
    """All of it; `say` hears of the progress.  `whole`: a folder of whole rounds, judged instead of
    the small table."""
    judges = Judges(say, whole)
    parts = [_HEAD.format(digest=digest())]
    rows, sections, together = [judge.HEAD_OF_ROWS], [], []
    for one in SETS:
        found = judges.read(one.sets)
        every, light = judges.of(found), judges.of(found, light_tracking=True)
        rows.append(judge.row(one.title, _clear(every)))
        rows.append(judge.row(f"**{one.title}, with naps**", _clear(light)))
        if one.is_listed:
            together += every
            sections.append(_section(one, every))
    parts += ["\n".join(rows) + "\n", _BELOW, *sections]
    native = judges.read((NATIVE,))
    every = judges.of(native)
    parts += [_NAMES, judge.confusion(every), _FEW, coverage.few(every)]
    parts += [_ABSTAINING, coverage.curve(every), *_reliability(judges, together)]
    parts += [_LATER.format(after=AFTER), _later(judges, native)]
    parts += [_SOURCES, _limited(judges), _WIDE, _simulated(judges)]
    return "\n".join(parts)


def _reliability(judges: Judges, every: Sequence[judge.Outcome]) -> list[str]:
    maps = [reliability.of_model(judges.models[0], of) for of in ("group", "name")]
    verdicts = [of(every) for of in (reliability.of_groups, reliability.of_names)]
    groups, names = (reliability.table(*pair) for pair in zip(verdicts, maps, strict=True))
    votes = reliability.table(verdicts[0])
    return [_RELIABILITY, groups, "By name:\n", names, _VOTES, votes]


def _clear(outcomes: Sequence[judge.Outcome]) -> list[judge.Outcome]:
    return [o for o in outcomes if not o.is_twin]


def _section(one: Kept, every: Sequence[judge.Outcome]) -> str:
    tables = f"{judge.table(_clear(every))}\n{judge.by_path(every)}"
    return f"## {one.title[0].upper()}{one.title[1:]}\n\n{one.campaigns}.\n\n{tables}"


def _later(judges: Judges, found: Sequence[Trace]) -> str:
    later = judges.of(traces.joined(found, AFTER))
    rows = [judge.HEAD_OF_ROWS, judge.row(f"from round {AFTER + 1} on", _clear(later))]
    return "\n".join(rows) + "\n"


def _limited(judges: Judges) -> str:
    one, extrapolation = judges.models
    return coverage.limited(
        judge.by_finished(judges.read((LIMITED,)), one, extrapolation=extrapolation)
    )


def _simulated(judges: Judges) -> str:
    rows = [judge.HEAD_OF_ROWS]
    for seed, rates in SIMULATED:
        judges.say(f"simulating {SIMULATED_PATHS} paths of {rates[0]:g} to {rates[1]:g} Mbit/s")
        found = list(simulated.campaign(SIMULATED_PATHS, seed, rates))
        for extrapolate in (False, True):
            what = f"{rates[0]:g} to {rates[1]:g} Mbit/s, " + (
                "with the wide forest" if extrapolate else "by the forest of recordings alone"
            )
            rows.append(judge.row(what, _clear(judges.of(found, extrapolate=extrapolate))))
    return "\n".join(rows) + "\n"


_HEAD = """\
# Watch: recall, by algorithm and by path

`tcplab publish` writes this page: it judges the recordings kept in docs/measured/data by the models
in bpf/watch ({digest}). [watch.md](watch.md) explains the
recordings, the goals, and what was tried. Nothing was trained by these recordings.

The flows always have data. Left out are those whose law is another group's on their path: YeAH if
it is Reno or Westwood by its law, Vegas if it has hardly a packet of its own in the queue, and
Illinois below 15 packets, which both are Reno. "Right" is a flow's group at the end of its
recording, with Wilson's 95 % interval; "unknown" counts as not right. Macro recall is the
mean over the four groups. Delay: rounds from a flow's first packet until the first of ten rounds
in a row in the right group, the median. Without "a law of their own" are BIC up to 14 packets,
Hybla up to 25 ms and HighSpeed up to 38 packets, which are Reno. "With naps" is how `tcpilot
watch` works unless you record.

## All sets
"""
_BELOW = """\
The sections below are of every round's judgement. In the tables by path, flows that are another
algorithm by their law are in "flows", and not in "own law".
"""
_NAMES = """\
## Names

The names at the end, at FIFOs of 18 to 100 Mbit/s (rows: the true algorithms; YeAH with its
twins):
"""
_FEW = """\
If there were only these algorithms, the name that has most of their votes:
"""
_ABSTAINING = """\
## Abstaining

The same flows, if a verdict counts only with such a share of the votes: how many flows have one,
and how many of these are right.
"""
_RELIABILITY = """\
## Confidence

How often a group is right if the watch shows this confidence, over all sets above that have a
section. Left out are certain signs, and paths beyond the recorded ones, where the confidence is at
most 0.5. A mean outside the interval is bold. [Another page](watch-senders.md#confidence) has the
teaching flows behind it, and other programs' senders.
"""
_VOTES = """\
The share of the votes for the group, which was the confidence before:
"""
_LATER = """\
## A watch that begins later

The same recordings as if the watch had begun {after} rounds after each flow:
"""
_SOURCES = """\
## Flows that do not always have data

`watch-native-limited-test` and `watch-native-sources-test`, the first 250 rounds of each flow.
"No group" is `unknown`:
"""
_WIDE = """\
## Simulated paths

40 paths at random each, which nothing learned from (0.3 to 300 ms, queues of 0.2 to 8 BDP, 1 to
64 flows):
"""
