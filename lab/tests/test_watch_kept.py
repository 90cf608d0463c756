"""The kept parts of recordings: small, and enough to train and to judge."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_watch import flow_of, flows

from tcplab.studies.publish import MEASURED
from tcplab.studies.watch import figures, judge, kept, packed, shrink, train, whole
from tcplab.studies.watch.records import Table

MOST = 3_000_000
"""Bytes of all records and models in the tree."""


def test_records_and_models_have_at_most_3_mb() -> None:
    files = [*figures.DATA.rglob("*"), *figures.MODELS.glob("*model*")]
    assert sum(file.stat().st_size for file in files if file.is_file()) <= MOST


def test_stored_rounds_are_judged_as_published() -> None:
    page = (MEASURED / "watch-recall.md").read_text()
    judges = figures.Judges(lambda _: None)
    for one in figures.SETS:
        if one.sets in (("fast",), ("policer",)):
            outcomes = [o for o in judges.of(judges.read(one.sets)) if not o.is_twin]
            assert judge.row(one.title, outcomes) in page


def test_stored_samples_train_a_model() -> None:
    rows, shipped = kept.read_samples(figures.SAMPLES), train.read(figures.MODELS / "model.json.gz")
    assert train.path_of(rows) == shipped["range"]
    model = train.as_json(train.fit(rows[rows["flow"] % 4 == 0]))
    assert model["classes"] == shipped["classes"]
    judges = figures.Judges(lambda _: None)
    judges.models[0] = model
    found = judge.figures(judges.of(judges.read((figures.NATIVE,))))
    assert found.right > 0.8 * found.flows


@pytest.mark.parametrize("name", ["model.json", "model.json.gz"])
def test_a_model_is_read_back(tmp_path: Path, name: str) -> None:
    model = train.as_json(train.fit(train.table(flows())))
    train.write(model, tmp_path / name)
    assert train.read(tmp_path / name) == model


def whole_rounds(seed: int) -> Table:
    """Rounds as a whole table has them: at most so many bits a number."""
    rounds = flow_of("reno", 1, "a", seed).flow.rounds
    rng = np.random.default_rng(seed)
    for name, bits in packed.BITS.items():
        if name not in ("rtt_us", "min_rtt_us", "flight_max_bytes", "segment_bytes"):
            rounds[name] += rng.integers(0, 50, len(rounds), dtype=np.uint32)
        codes = packed.coded(rounds[name].astype(np.int64), bits)
        rounds[name] = packed.decoded(codes, bits)
    rounds["sojourn_max_us"] = rounds["receiver_window_bytes"] = 0
    return rounds


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_grain_keeps_each_number(seed: int) -> None:
    rounds = whole_rounds(seed)
    again = packed.unpack(packed.pack(rounds, packed.EXACT), packed.EXACT)
    for name in packed.BITS:
        assert (again[name] == rounds[name]).all(), name


@pytest.mark.parametrize("grain", range(packed.EXACT))
def test_a_grain_keeps_its_bits(grain: int) -> None:
    rounds, of = whole_rounds(1), packed.GRAINS[grain]
    again = packed.unpack(packed.pack(rounds, grain), grain)
    for name in packed.RARE:
        assert (again[name] == rounds[name]).all(), name
    near = {"rtt_us": of.rtt, "duration_us": of.duration, "in_bytes": of.sent}
    for name, bits in near.items():
        error = np.abs(again[name].astype(np.int64) - rounds[name].astype(np.int64))
        assert (error <= (rounds[name] >> bits) + 1).all(), name
    windows = [r["flight_max_bytes"] * 16 // r["segment_bytes"] for r in (again, rounds)]
    assert (windows[0] == windows[1]).all()


def test_packed_flows_are_read_by_set(tmp_path: Path) -> None:
    file = tmp_path / "rounds.parquet.xz"
    names = ("one", "other", "other", "one")
    ones = [kept.Packed(t, i, n, "c") for i, (t, n) in enumerate(zip(flows(), names, strict=True))]
    kept.write_packed(ones, file)
    found = kept.read_rounds(file, ["other"])
    assert [(t.algorithm, t.path) for t in found] == [
        (one.trace.algorithm, one.trace.path) for one in ones[1:3]
    ]


def test_few_samples_are_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "samples.parquet.xz"
    rows = shrink.few_samples(train.table(flows()))
    kept.write_ranks(rows, file)
    assert kept.read_samples(file).equals(rows)
    assert set(rows.groupby("flow").size()) == {shrink.ROWS}


def test_the_last_change_is_of_group_or_name() -> None:
    models = shrink.shipped()
    trace = flows()[0]
    last = models.last_change(trace)
    assert 0 < last < len(trace.flow.rounds)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a file in its history."""
    command = ["git", "-C", str(tmp_path)]
    subprocess.run([*command, "init", "-q"], check=True)
    add = [*command, "hash-object", "-w", "--stdin"]
    blob = subprocess.run(add, input=b"rounds", capture_output=True, check=True).stdout.decode()
    entry = {"blob": blob.strip(), "sha256": hashlib.sha256(b"rounds").hexdigest()}
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"watch-rounds.parquet": entry}))
    monkeypatch.setattr(whole, "LIST", file)
    return file


def test_whole_files_come_from_history(history: Path, tmp_path: Path) -> None:
    (file,) = whole.restore(tmp_path / "whole")
    assert file.read_bytes() == b"rounds"
    file.write_bytes(b"damaged")
    assert whole.restore(tmp_path / "whole") == [file] and file.read_bytes() == b"rounds"


@pytest.mark.parametrize(("key", "why"), [("blob", "unshallow"), ("sha256", "content")])
def test_what_history_lacks_is_refused(history: Path, tmp_path: Path, key: str, why: str) -> None:
    listed = json.loads(history.read_text())
    listed["watch-rounds.parquet"][key] = "0" * 40
    history.write_text(json.dumps(listed))
    with pytest.raises(whole.MissingError, match=why):
        whole.restore(tmp_path / "whole")
