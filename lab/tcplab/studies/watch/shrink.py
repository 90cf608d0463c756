"""The small tables of docs/measured/data, from whole ones: `python -m tcplab.studies.watch shrink`.

Rounds: a flow has the coarsest grain (packed.py) with the same verdict of the shipped models as the
whole flow.  Its last rounds are left out if its verdict does not change in them.  So the published
figures stay the same.  Other models are judged with a little more noise.

Samples: a few rows of each flow.  A model of them has lower recall than the shipped one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tcplab.studies.watch import coverage, figures, judge, kept, native, packed, traces, train
from tcplab.studies.watch.records import Table
from tcplab.studies.watch.traces import Trace

ROWS = 3
"""Samples of a flow."""
AFTER_CHANGE = 30
"""Rounds kept after the last change of a verdict."""
LEAST = 100
"""Least rounds kept of a flow, if it has so many."""


@dataclass(frozen=True)
class Models:
    """The shipped models as the kernel reads them."""

    one: Table
    extrapolation: Table
    names: list[str]

    def verdicts(self, trace: Trace, is_native: bool) -> list[Any]:
        """A flow's part in the published figures: by a watch measuring every round, by one in light
        tracking, and for the native set by one beginning later."""
        every = self._outcome(trace)
        found: list[Any] = [_verdict(every), _verdict(self._outcome(trace, light_tracking=True))]
        if is_native:
            later = traces.joined([trace], figures.AFTER)
            found += [_shares(every), *(_verdict(self._outcome(one)) for one in later)]
        return found

    def _outcome(self, trace: Trace, light_tracking: bool = False) -> judge.Outcome:
        return judge.by_model(trace, self.one, self.names, light_tracking, self.extrapolation)

    def last_change(self, trace: Trace) -> int:
        """The round of the last change of group or name."""
        found = [0]
        for light_tracking in (False, True):
            verdicts = native.verdicts(
                trace.flow.rounds, self.one, light_tracking, self.extrapolation
            )
            said = verdicts["group"].astype(int) * 256 + verdicts["name"]
            found += [int(at) + 1 for at in np.flatnonzero(np.diff(said))[-1:]]
        return max(found)


def shipped() -> Models:
    """Those in bpf/watch."""
    one, extrapolation = (train.read(figures.MODELS / name) for name in figures.OF_PAGE)
    names = [entry["name"] for entry in one["classes"]]
    return Models(train.in_kernel(one), train.in_kernel(extrapolation), names)


def rounds(folder: Path, target: Path) -> None:
    """The table for judging, from the whole rounds of all sets."""
    models, found = shipped(), []
    for name in figures.ALL_SETS:
        file = folder / figures.whole_name(name)
        campaigns = pd.read_parquet(file, columns=["flow", "campaign"]).groupby("flow").first()
        pairs = zip(kept.read_rounds(file), campaigns["campaign"], strict=True)
        packed_ones = [_small(trace, name, str(campaign), models) for trace, campaign in pairs]
        found += sorted(packed_ones, key=lambda one: one.grain)  # similar ones compress better
    kept.write_packed(found, target)


def _small(trace: Trace, name: str, campaign: str, models: Models) -> kept.Packed:
    """The smallest form with the same verdicts."""
    is_native, count = name == figures.NATIVE, len(trace.flow.rounds)
    wanted = models.verdicts(trace, is_native)
    few = min(max(models.last_change(trace) + AFTER_CHANGE, LEAST), count)
    for some in [count] if is_native else dict.fromkeys((few, count)):
        cut = replace(trace, flow=replace(trace.flow, rounds=trace.flow.rounds[:some]))
        for grain in range(packed.EXACT + 1):
            if models.verdicts(_repacked(cut, grain), is_native) == wanted:
                return kept.Packed(cut, grain, name, campaign)
    raise ValueError(f"{trace.cell}: the exact grain has other verdicts")


def _repacked(trace: Trace, grain: int) -> Trace:
    """As it is read back."""
    rounds = packed.unpack(packed.pack(trace.flow.rounds, grain), grain)
    return replace(trace, flow=replace(trace.flow, rounds=rounds))


def _verdict(outcome: judge.Outcome) -> tuple[object, ...]:
    found = outcome.group, outcome.name, outcome.delay, outcome.is_falsely_certain
    return (*found, outcome.is_twin, outcome.is_reno)


def _shares(outcome: judge.Outcome) -> list[bool]:
    """Whether the verdict reaches each least share of the votes."""
    pairs = product(coverage.STEPS, (outcome.sure, outcome.name_sure))
    return [share >= least for least, share in pairs]


def samples(files: Sequence[Path], target: Path) -> None:
    """The table for training, from whole ones."""
    rows = train.together([pd.read_parquet(file) for file in files])
    kept.write_ranks(few_samples(rows), target)


def few_samples(rows: pd.DataFrame) -> pd.DataFrame:
    """ROWS of each flow, evenly spread, with train.LEVELS values of a feature in all."""
    count = rows.groupby("flow")["label"].transform("size").to_numpy()
    at = rows.groupby("flow").cumcount().to_numpy()
    is_kept = (at == 0) | (at * ROWS // count != (at - 1) * ROWS // count)
    return train.coarse(rows[is_kept].reset_index(drop=True))
