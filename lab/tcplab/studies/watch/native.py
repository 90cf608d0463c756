"""The classifier of bpf/core/watch on this host: exactly the kernel's arithmetic."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tcplab.studies.watch.features import FEATURES
from tcplab.studies.watch.records import Table

_HERE = Path(__file__).parent
_BPF = Path(__file__).parents[4] / "bpf"
CLASSES_MAX, TREES_MAX, NODES_MAX, LEAVES_MAX, FEATURES_MAX = 20, 32, 65536, 32768, 128
RANGES = 3
"""Limits of a model: TP_MODEL_… in bpf/abi/watch.h."""
VERDICTS = np.dtype(
    [
        ("group", "u1"),
        ("reason", "u1"),
        ("name", "u1"),
        ("confidence", "u1"),
        ("candidate", "u1"),
        ("seen", "u1"),
        ("group_confidence", "u1"),
        ("voted_rounds", "u1"),
        ("since_round", "<u4"),
        ("votes", "<u2", CLASSES_MAX),
    ]
)
MODEL = np.dtype(
    [
        ("trees", "<u4"),
        ("classes", "<u4"),
        ("range", [("least", "<u4"), ("most", "<u4")], RANGES),
        ("root", "<u4", TREES_MAX),
        ("group", "u1", CLASSES_MAX),
        (
            "node",
            [("threshold", "<i4"), ("child", "<u2"), ("feature", "u1"), ("is_leaf", "u1")],
            NODES_MAX,
        ),
        ("leaf", "u1", (LEAVES_MAX, CLASSES_MAX)),
    ]
)


def compiled(source: Path, *flags: str) -> ctypes.CDLL:
    """Needs a C compiler, as $CC or cc."""
    folder = tempfile.TemporaryDirectory(prefix="tcplab-watch-")
    target = Path(folder.name) / "compiled.so"
    compiler = os.environ.get("CC", "cc")
    command = [
        compiler,
        "-O2",
        "-w",
        "-shared",
        "-fPIC",
        *flags,
        "-I",
        str(_BPF),
        "-o",
        str(target),
    ]
    subprocess.run([*command, str(source)], check=True)
    loaded = ctypes.CDLL(str(target))
    folder.cleanup()
    return loaded


@functools.cache
def library(*flags: str) -> ctypes.CDLL:
    """Compiled for each process."""
    return compiled(_HERE / "replay.c", *flags)


def _pointer(array: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def features(rounds: Table) -> npt.NDArray[np.int32]:
    """A row of features after each round."""
    rounds = np.ascontiguousarray(rounds)
    found = np.zeros((len(rounds), FEATURES_MAX), dtype=np.int32)
    library().replay_features(_pointer(rounds), len(rounds), _pointer(found))
    return found[:, : len(FEATURES)].copy()


def slow_start_rounds(rounds: Table) -> int:
    """How long the flow's slow start was."""
    rounds = np.ascontiguousarray(rounds)
    return int(library().replay_slow_start_rounds(_pointer(rounds), len(rounds)))


def verdicts(
    rounds: Table, model: Table, light_tracking: bool = False, extrapolation: Table | None = None
) -> Table:
    """A row of VERDICTS after each round.  `model` and `extrapolation` have one row of MODEL each.
    With `light_tracking`, settled flows are measured at a reduced rate."""
    if light_tracking:
        return tracked(rounds, model, extrapolation)[0]
    return _replayed(library(), rounds, (model, extrapolation), None)


def tracked(
    rounds: Table, model: Table, extrapolation: Table | None = None, again: int | None = None
) -> tuple[Table, Table]:
    """The verdicts with light tracking, and for each round whether it passed in light tracking.
    `again`: another threshold of votes than TP_LIGHT_AGAIN."""
    lightly = np.zeros(len(rounds), dtype=np.uint8)
    one = library() if again is None else library(f"-DTP_LIGHT_AGAIN={again}")
    return _replayed(one, rounds, (model, extrapolation), lightly), lightly


def _replayed(
    one: ctypes.CDLL, rounds: Table, models: tuple[Table, Table | None], lightly: Table | None
) -> Table:
    beyond = no_model() if models[1] is None else models[1]
    rounds = np.ascontiguousarray(rounds)
    found = np.zeros(len(rounds), dtype=VERDICTS)
    one.replay_verdicts(
        *(_pointer(rounds), len(rounds), _pointer(models[0]), _pointer(beyond)),
        *(None if lightly is None else _pointer(lightly), _pointer(found)),
    )
    return found


def no_model() -> Table:
    """Rules only: no trees."""
    return np.zeros(1, dtype=MODEL)


def votes(rows: npt.NDArray[np.int32], model: Table) -> npt.NDArray[np.uint32]:
    """The trees' votes on rows of features: a share of 255 for each class."""
    padded = np.zeros((len(rows), FEATURES_MAX), dtype=np.int32)
    padded[:, : rows.shape[1]] = rows
    found = np.zeros((len(padded), CLASSES_MAX), dtype=np.uint32)
    library().replay_votes(_pointer(padded), len(padded), _pointer(model), _pointer(found))
    return found


def p4air(intervals: Table) -> npt.NDArray[np.uint8]:
    """P4air's group after each interval; the flow's share of the link is not known."""
    intervals = np.ascontiguousarray(intervals)
    found = np.zeros(len(intervals), dtype=np.uint8)
    library().replay_p4air(_pointer(intervals), len(intervals), _pointer(found))
    return found


def sizes() -> list[int]:
    """Sizes of the structures, as compiled."""
    return [int(library().replay_size(what)) for what in range(5)]
