"""The jobs of a campaign: every point and repetition, one repetition after the other, the points of
each in random order."""

from __future__ import annotations

import random
import re
import zlib
from pathlib import Path

from tcplab.engine.job import Job, Settings
from tcplab.scenario import Scenario
from tcplab.scenario.model import cell_from_json

_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_MOST_ID = 120


def jobs(scenario: Scenario, folder: Path, settings: Settings) -> list[Job]:
    """The same for the same scenario and seed.  The order within a repetition is random, so a
    host's drift does not fall on neighbours of a sweep.  Each repetition is over before the next
    one begins: an interrupted campaign has whole tables, of fewer repetitions."""
    found: list[Job] = []
    generator = random.Random(scenario.top.seed)
    for repetition in range(scenario.top.repetitions):
        block: list[Job] = []
        for number, point in enumerate(scenario.points):
            identity = cell_id(number, point.labels, repetition)
            block.append(
                Job(
                    id=identity,
                    labels=point.labels,
                    repetition=repetition,
                    seed=_seed(scenario.top.seed, repetition),
                    order=0,
                    cell=point.cell.as_json(),
                    folder=str(folder),
                    settings=settings,
                )
            )
        generator.shuffle(block)
        if not scenario.only_repetitions or repetition in scenario.only_repetitions:
            found += block
    return [Job(**{**job.__dict__, "order": order}) for order, job in enumerate(found)]


def cell_id(number: int, labels: dict[str, object], repetition: int) -> str:
    """A descriptive name for a folder."""
    words = [_UNSAFE.sub("_", str(label)) for label in labels.values()]
    return f"{number:04}-{'-'.join(words) or 'cell'}"[:_MOST_ID] + f".{repetition}"


def _seed(base: int, repetition: int) -> int:
    """Alike for all points: compared cells have the same sizes in the same order."""
    return zlib.crc32(f"{base}/{repetition}".encode())


def batches(jobs: list[Job], size: int) -> list[list[Job]]:
    """Groups of jobs on one machine, `size` to a boot.

    A tuner with effects beyond one network namespace gets a machine of its own.
    """
    alone = [job for job in jobs if cell_from_json(job.cell).tuner.alone]
    rest = [job for job in jobs if not cell_from_json(job.cell).tuner.alone]
    together = [rest[start : start + size] for start in range(0, len(rest), size)]
    return sorted([*together, *([job] for job in alone)], key=lambda batch: batch[0].order)
