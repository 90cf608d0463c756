"""The classifier's training: what is recorded, learned and written is what the kernel side runs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcplab.engine import watcher
from tcplab.scenario import find, load
from tcplab.scenario.model import Watch
from tcplab.studies.watch import cost, judge, kept, native, packed, records, traces, train
from tcplab.studies.watch.__main__ import main
from tcplab.studies.watch.features import FEATURES, GROUP_OF
from tcplab.studies.watch.traces import Trace

BPF = Path(__file__).parents[2] / "bpf"


def test_structures_are_laid_out_as_the_compiler_does() -> None:
    dtypes = (
        records.FLOWS,
        records.ROUNDS,
        records.INTERVALS,
        native.VERDICTS,
        native.MODEL,
    )
    assert native.sizes() == [dtype.itemsize for dtype in dtypes]


def test_a_recording_is_read_back(tmp_path: Path) -> None:
    opened = np.zeros(1, dtype=records.FLOWS)
    opened["kind"], opened["flow"], opened["source_port"] = records.OPENED, 7, 4242
    rounds = np.zeros(3, dtype=records.ROUNDS)
    rounds["kind"], rounds["flow"], rounds["rtt_us"] = records.ROUND, 7, (1, 2, 3)
    other = np.zeros(1, dtype=records.ROUNDS)
    other["kind"], other["flow"] = records.ROUND, 8
    file = tmp_path / "watch.bin"
    file.write_bytes(records.MAGIC + opened.tobytes() + rounds.tobytes() + other.tobytes())
    [flow] = records.read(file)
    assert int(flow.opened["source_port"]) == 4242
    assert list(flow.rounds["rtt_us"]) == [1, 2, 3]
    assert len(flow.intervals) == 0


def test_invalid_recordings_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "watch.bin"
    for content in (b"", b"TPWATCH1" + b"\x09" * 8):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"watch\.bin"):
            records.read(file)


def flow_of(algorithm: str, growth: int, path: str, seed: int) -> Trace:
    """A flow that halves at 100 packets and grows by `growth` each round."""
    generator = np.random.default_rng(seed)
    rounds = np.zeros(200, dtype=records.ROUNDS)
    window = 10.0
    for i, row in enumerate(rounds):
        lost = window > 100
        row["number"], row["segment_bytes"] = i, 1000
        row["min_rtt_us"], row["duration_us"] = 50_000, 60_000
        row["rtt_us"] = 50_000 + int(window) * 500
        row["flight_max_bytes"] = int(window * 1000 + generator.integers(0, 300))
        row["sojourn_mean_us"] = row["sojourn_max_us"] = int(window) * 500
        row["link_queue_us"], row["in_packets"], row["acks"] = 50_000, 50, 25
        row["again_packets"] = row["dropped_packets"] = int(lost)
        window = window / 2 if lost else window * 2 if i < 4 else window + growth
    empty = np.zeros(1, dtype=records.FLOWS)
    flow = records.Flow(empty[0], rounds, np.zeros(0, dtype=records.INTERVALS))
    return Trace(algorithm, path, "cell", flow, native.features(rounds))


def flows() -> list[Trace]:
    return [
        flow_of(name, growth, path, seed)
        for seed, path in enumerate(("a", "b"))
        for name, growth in (("reno", 1), ("hybla", 6))
    ]


def test_a_late_watch_knows_nothing_of_earlier_rounds() -> None:
    whole = flows()[0]
    whole.flow.rounds["min_rtt_us"] = 1
    later = traces.joined([whole], 7)[0].flow.rounds
    assert len(later) == len(whole.flow.rounds) - 7
    assert later["number"][0] == 0 and later["min_rtt_us"][0] == later["rtt_us"][0]
    assert whole.flow.rounds["number"][7] == 7, "the recording stays as it is"
    assert not traces.joined([whole], len(whole.flow.rounds) - 1)


def test_the_kernels_trees_say_what_scikit_learn_says() -> None:
    forest = train.fit(train.table(flows()))
    model = train.in_kernel(train.as_json(forest))
    rows = np.concatenate([trace.features for trace in flows()])
    expected = forest.trees.predict_proba(forest.ranks(rows))
    found = native.votes(rows, model)[:, : len(forest.trees.classes_)] / 255
    assert np.abs(found - expected).max() < 0.02


def test_yeah_with_a_short_queue_teaches_nothing() -> None:
    short = replace(flow_of("yeah", 1, "a", 1), queue_share=50.0)
    assert short.is_twin and not replace(short, queue_share=100.0).is_twin
    classes = train.fit(train.table([*flows(), short])).trees.classes_
    assert list(classes) == ["hybla", "reno"]


def test_small_window_highspeed_is_reno_unless_counting_acks() -> None:
    flow = flow_of("highspeed", 1, "a", 1)
    few = flow.flow.rounds.copy()
    few["flight_max_bytes"] //= 4
    by_law = replace(flow, flow=replace(flow.flow, rounds=few))
    assert by_law.is_reno and not flow.is_reno
    kernels = replace(by_law, counts_acks=True)
    assert not kernels.is_reno
    assert "highspeed" in set(train.table([*flows(), kernels])["label"])
    assert "highspeed" not in set(train.table([*flows(), by_law])["label"])


def test_a_bic_of_few_packets_is_reno() -> None:
    flow = flow_of("bic", 1, "a", 1)
    few = flow.flow.rounds.copy()
    few["flight_max_bytes"] //= 10
    assert not flow.is_reno
    assert replace(flow, flow=replace(flow.flow, rounds=few)).is_reno


def test_vegas_with_almost_no_queue_is_a_twin() -> None:
    flow = flow_of("vegas", 1, "a", 1)
    assert not flow.is_twin
    few = flow.flow.rounds.copy()
    few["rtt_us"] = few["min_rtt_us"] + 1000  # at most 2 % of 100 packets
    assert replace(flow, flow=replace(flow.flow, rounds=few)).is_twin


def test_cross_validation_judges_only_unseen_paths() -> None:
    outcomes = judge.cross_validated(flows())
    assert [o.group for o in outcomes] == ["loss"] * 4
    assert [o.name for o in outcomes] == [o.algorithm for o in outcomes]
    assert "| reno | loss | 2 | 100% | 34% to 100% |" in judge.table(outcomes)


def test_a_finished_model_judges_unseen_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.json"
    train.write(train.as_json(train.fit(train.table(flows()))), file)
    monkeypatch.setattr(traces, "load", lambda *_: [flow_of("hybla", 6, "c", 7)])
    monkeypatch.setattr(
        "sys.argv", ["tcplab.studies.watch", "judge", "--by", str(file), str(tmp_path)]
    )
    assert main() == 0
    ours = capsys.readouterr().out.split("Ours, by ")[-1]
    assert "| hybla | loss | 1 | 100% |" in ours and "by name 100.0%" in ours


def test_kept_samples_make_the_same_model(tmp_path: Path) -> None:
    file, model = tmp_path / "samples.parquet", tmp_path / "model.json"
    kept.write_samples(flows(), ["campaign"] * 4, file)
    words = ["tcplab.studies.watch", "train", str(file), "--out", str(model)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", words)
        assert main() == 0
    expected = train.fit(train.table(flows()), seed=train.SEED)
    assert json.loads(model.read_text()) == train.as_json(expected)


def test_tables_together_keep_their_flows_apart() -> None:
    one = train.table(flows())
    both = train.together([one, one])
    assert sorted(both["flow"].unique()) == list(range(8))
    assert len(both) == 2 * len(one)


def marked(flags: int) -> Trace:
    """A Reno whose losses are marks."""
    trace = flow_of("reno", 1, "a", 1)
    rounds = trace.flow.rounds
    rounds["marked_acks"] = rounds["dropped_packets"]
    rounds["again_packets"] = rounds["dropped_packets"] = 0
    rounds["flags"] = flags
    return replace(trace, features=native.features(rounds))


def test_marks_count_as_losses_without_ect_on_syn() -> None:
    response, lossy = FEATURES.index("response"), FEATURES.index("lossy_rounds")
    ect_syn = 2
    lost, classic, dctcp = flow_of("reno", 1, "a", 1), marked(0), marked(ect_syn)
    for feature in (response, lossy):
        assert classic.features[-1][feature] == lost.features[-1][feature]
    assert dctcp.features[-1][response] == -1 and dctcp.features[-1][lossy] == 0


def test_path_name_includes_queue_jitter_and_pacing() -> None:
    link = {"rate_mbit": 10, "rtt_ms": 40, "queue": "1 bdp", "loss_percent": 0}
    flow = {"cc": "cubic", "streams": 1}

    def path(link_more: dict[str, object], flow_more: dict[str, object]) -> str:
        scenario = {"links": [link | link_more], "flows": [flow | flow_more]}
        return traces.configuration({"scenario": scenario})

    assert path({}, {}) == "10 Mbit/s, 40 ms, 1 bdp, 1 flow"
    marking = {"qdisc": "codel", "ecn": True, "jitter_ms": 0.5}
    found = path(marking, {"fq_paced": True})
    assert found == "10 Mbit/s, 40 ms, 1 bdp, codel, ECN, jitter 0.5 ms, fq paced, 1 flow"


def test_kept_rounds_are_judged_as_those_recorded(tmp_path: Path) -> None:
    file = tmp_path / "rounds.parquet"
    kept.write_rounds(flows(), ["campaign"] * 4, file)
    model = train.as_json(train.fit(train.table(flows())))
    again = judge.by_finished(kept.read_rounds(file), model)
    recorded = judge.by_finished(flows(), model)
    assert [(o.algorithm, o.path, o.group, o.name) for o in again] == [
        (o.algorithm, o.path, o.group, o.name) for o in recorded
    ]


def test_coded_numbers_round_down_within_their_precision() -> None:
    numbers = np.unique(np.geomspace(1, 2**32 - 1, 4000).astype(np.int64))
    for bits in (6, 10, 32):
        codes = packed.coded(numbers, bits)
        found = packed.decoded(codes, bits)
        assert (np.diff(codes) >= 0).all()
        assert (found <= numbers).all() and (numbers - found <= numbers >> (bits - 1)).all()


def test_wilsons_interval_is_the_published_one() -> None:
    # Wilson (1927): 8 of 10.
    low, high = judge.wilson(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)


def test_feature_names_of_programs_and_laboratory_are_the_same() -> None:
    text = (BPF.parent / "crates/core/src/model/features.rs").read_text()
    assert tuple(re.findall(r'^    "(\w+)",$', text, re.MULTILINE)) == FEATURES


def test_features_of_a_model_have_their_places_by_name() -> None:
    model = train.as_json(train.fit(train.table(flows())))
    older = model | {"features": ["start_rounds", *FEATURES]}
    older["nodes"] = [[f + (f >= 0), above, child] for f, above, child in model["nodes"]]
    assert train.in_kernel(older) == train.in_kernel(model)
    older["nodes"] = [[min(f, 0), above, child] for f, above, child in model["nodes"]]
    with pytest.raises(ValueError, match="start_rounds"):
        train.in_kernel(older)


def test_the_committed_models_fit_and_name_known_algorithms() -> None:
    one, extrapolation = (
        train.read(BPF / "watch" / f"{name}.json.gz") for name in ("model", "wide_model")
    )
    for model in (one, extrapolation):
        assert model["features"] in ([], list(FEATURES))
        assert all(GROUP_OF[c["name"]] == c["group"] for c in model["classes"])
        train.in_kernel(model)
    assert (one["classes"], one["range"]) == (extrapolation["classes"], extrapolation["range"])


def test_a_cell_without_watch_starts_none() -> None:
    cell = load(find("watch"), quick=True).points[0].cell
    assert any("tcpilot" in line and "--record" in line for line in watcher.start(cell))
    without = replace(cell, watch=Watch())
    assert watcher.start(without) == watcher.stop(without) == []


def test_light_tracking_share_counts_flow_lines_since_last_reset() -> None:
    tracking = cost.LightTracking()
    assert tracking.share() is None
    light, full = (
        f'{{"type":"flow","light_tracking":{tracked}}}\n' for tracked in ("true", "false")
    )
    tracking.follow([light])
    tracking.forget()
    lines = ['{"type":"totals"}\n', "attached\n"]
    tracking.follow([*lines, light, full] * 2)
    assert tracking.share() == 0.5


def test_an_illinois_of_few_packets_is_a_twin() -> None:
    flow = flow_of("illinois", 1, "a", 1)
    assert not flow.is_twin
    few = flow.flow.rounds.copy()
    few["flight_max_bytes"] //= 10
    assert replace(flow, flow=replace(flow.flow, rounds=few)).is_twin


def test_light_tracking_at_another_threshold_of_votes() -> None:
    model = train.in_kernel(train.as_json(train.fit(train.table(flows()))))
    long = [np.concatenate([trace.flow.rounds] * 4) for trace in flows()]
    for rounds in long:
        rounds["number"] = np.arange(len(rounds))
    shares = [
        sum(native.tracked(rounds, model, again=again)[1].sum() for rounds in long)
        for again in (90, 255)
    ]
    assert shares[0] > shares[1] > 0
    verdicts, lightly = native.tracked(long[0], model, again=170)
    assert (verdicts == native.verdicts(long[0], model, light_tracking=True)).all()
    assert len(lightly) == len(long[0])
