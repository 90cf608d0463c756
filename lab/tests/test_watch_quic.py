"""QUIC's part of the watch's training: its flows apart, and a model without features from TCP's
header."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcplab.scenario import find, load
from tcplab.scenario.errors import ScenarioError
from tcplab.studies.watch import judge, native, quic, records, train
from tcplab.studies.watch.features import FEATURES, GROUP_OF
from tcplab.studies.watch.traces import Trace

BPF = Path(__file__).parents[2] / "bpf"


def flow_of(algorithm: str, path: str, keeps: float, spins: bool = True) -> Trace:
    """A flow of QUIC whose window falls to such a share at 100 packets, and grows by one each
    round."""
    rounds = np.zeros(200, dtype=records.ROUNDS)
    window = 10.0
    for i, row in enumerate(rounds):
        lost = window > 100
        row["number"], row["segment_bytes"] = i, 1000
        row["min_rtt_us"], row["duration_us"] = 50_000, 60_000
        row["rtt_us"] = 50_000 + int(window) * 500
        row["flight_max_bytes"] = int(window * 1000)
        row["backlog_bytes"] = int(window * 500)
        row["sojourn_mean_us"] = row["sojourn_max_us"] = int(window) * 500
        row["link_queue_us"], row["in_packets"], row["acks"] = 50_000, 50, 25
        row["dropped_packets"] = int(lost)
        row["flags"] = records.QUIC | (quic.SPIN if spins else 0)
        window = window * keeps if lost else window * 2 if i < 4 else window + 1
    empty = np.zeros(1, dtype=records.FLOWS)
    flow = records.Flow(empty[0], rounds, np.zeros(0, dtype=records.INTERVALS))
    return Trace(algorithm, path, "cell", flow, native.features(rounds), is_quic=True)


def flows() -> list[Trace]:
    return [
        flow_of(name, path, keeps, spins=path.startswith("a"))
        for path in ("a, 1 flow", "b, 2 flows")
        for name, keeps in (("reno", 0.5), ("bbr3", 0.97))
    ]


def test_quic_trees_use_no_tcp_header_features() -> None:
    columns = {FEATURES[i] for i in train.fit(train.table(flows()), True).columns}
    assert columns.isdisjoint(train.OF_TCP)
    of_tcp = [replace(trace, is_quic=False) for trace in flows()]
    assert set(train.OF_TCP) <= {FEATURES[i] for i in train.fit(train.table(of_tcp)).columns}


def test_counted_backlog_takes_precedence_over_littles_law() -> None:
    trace = flow_of("reno", "a, 1 flow", 0.5)
    without = trace.flow.rounds.copy()
    without["backlog_bytes"] = 0
    place = FEATURES.index("backlog_of_window")
    assert (native.features(without)[20:, place] == 0).all()  # nothing went in, by that law
    assert (trace.features[20:, place] > 0).all()


def test_table_separates_flows_by_spin_bit() -> None:
    found = flows()
    outcomes = judge.by_finished(found, train.as_json(train.fit(train.table(found), True)))
    text = quic.table(found, outcomes)
    assert "| rounds by the spin bit | 2 |" in text
    assert "| rounds by handshake and queue | 2 |" in text
    assert "| beside others | 2 |" in text and "| all | 4 | 100% |" in text


def test_committed_quic_model_fits_and_names_known_algorithms() -> None:
    model = train.read(BPF / "watch" / "quic_model.json.gz")
    assert model["features"] == list(FEATURES)
    assert {c["name"] for c in model["classes"]} == {"reno", "cubic", "bbr3"}
    assert all(GROUP_OF[c["name"]] == c["group"] for c in model["classes"])
    asked = {FEATURES[feature] for feature, _, _ in model["nodes"] if feature >= 0}
    assert asked.isdisjoint(train.OF_TCP)
    train.in_kernel(model)


def test_only_quic_has_a_spin_bit(tmp_path: Path) -> None:
    text = find("watch-native-quic").read_text()
    cells = [point.cell for point in load(find("watch-native-quic-test")).points]
    assert {flow.spin for cell in cells for flow in cell.flows if flow.quic} == {True, False}
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text.replace('name = "tcp"\n', 'name = "tcp"\nspin = false\n'))
    with pytest.raises(ScenarioError, match="no spin bit"):
        load(wrong)
