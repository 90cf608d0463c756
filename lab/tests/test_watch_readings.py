"""P4air's open readings: today's is what the kernel side does, and every one is judged alike."""

import numpy as np

from tcplab.studies.watch import native, readings, records
from tcplab.studies.watch.traces import Trace


def intervals(seed: int, count: int = 300) -> records.Table:
    """A flow that fills a queue, loses, and starts again, with noise."""
    generator = np.random.default_rng(seed)
    rows = np.zeros(count, dtype=records.INTERVALS)
    packets = 4.0
    for row in rows:
        packets = packets * 2 if packets < 60 else packets + generator.integers(0, 3)
        lost = packets > 100
        row["packets"] = max(int(packets + generator.integers(-4, 5)), 0)
        row["max_queue_us"] = max(packets - 60, 0) * 1000 + generator.integers(0, 200)
        row["dropped_packets"] = int(lost) * 2
        row["rtt_us"], row["link_rate"] = 50_000, 1_500_000
        packets = packets * 0.7 if lost else packets
    return rows


def test_first_reading_equals_the_kernel_side() -> None:
    for seed in range(20):
        found = readings.replay(intervals(seed), readings.readings()[:1], 0.0)
        assert found[1:, 0].tolist() == list(native.p4air(intervals(seed))), seed


def test_readings_differ_and_the_nearest_is_named() -> None:
    rounds = np.zeros(30, dtype=records.ROUNDS)
    rounds["segment_bytes"] = 1448
    opened = np.zeros(1, dtype=records.FLOWS)[0]

    def trace(name: str, seed: int) -> Trace:
        flow = records.Flow(opened, rounds, intervals(seed))
        return Trace(name, "path", "cell", flow, native.features(rounds))

    flows = [trace("cubic", 1), trace("reno", 2), trace("westwood", 3)]
    found = readings.recall(flows)
    assert found.recall.shape == (len(readings.readings()), 3)
    assert len(np.unique(found.recall, axis=0)) > 2
    nearest = found.distance().min()
    assert f"{nearest:.2f}" in readings.text(found)
    each = readings.recall(flows, each_interval=True).recall
    assert each.max() < 1.0 and len(np.unique(each)) > len(np.unique(found.recall))
