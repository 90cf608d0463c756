"""The comparison of congestion controls: which cells there are, and how they are judged."""

from __future__ import annotations

import json

from tcplab.studies.cc.compare import cells_of, multipath_cells
from tcplab.studies.cc.table import costs, means, pairs, row


def flow(goodput: float, cwnd: float, rtt: float) -> dict[str, float]:
    return {"goodput_mbit": goodput, "mean_cwnd": cwnd, "mean_rtt_ms": rtt}


def run(algorithm: str, condition: str, result: dict[str, float], ack_ns: float = 0) -> str:
    cell = {"algorithm": algorithm, "name": condition}
    return json.dumps({"cell": cell, "ack_ns": ack_ns, "flows": [result]})


def test_each_condition_is_run_with_the_kernels_and_then_with_ours() -> None:
    chosen = cells_of(["hstcp", "lola"], ["clean", "loss"])
    assert [(c["name"], c["algorithm"]) for c in chosen] == [
        ("clean", "highspeed"),
        ("clean", "tp_hstcp"),
        ("clean", "tp_lola"),
        ("loss", "highspeed"),
        ("loss", "tp_hstcp"),
        ("loss", "tp_lola"),
    ]


def test_one_side_can_be_run_alone() -> None:
    assert [c["algorithm"] for c in cells_of(["hstcp"], ["clean"], "kernel")] == ["highspeed"]
    assert [c["algorithm"] for c in cells_of(["hstcp"], ["clean"], "ours")] == ["tp_hstcp"]


def test_means_are_marked_only_where_the_interval_leaves_out_zero() -> None:
    def repeated(theirs: list[float], ours: list[float]) -> str:
        lines = []
        for ms, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            lines.append(run("reno", f"versus-cubic-{ms}ms", flow(a, a, 100 + ms)))
            lines.append(run("tp_reno", f"versus-cubic-{ms}ms", flow(b, b, 100 + ms)))
        return means(lines).splitlines()[-1]

    assert repeated([4, 5, 6], [4.5, 5.5, 6.5]).startswith(
        "| reno | versus-cubic | 3 | 5.00 ± 1.00 → 5.50 ± 1.00 (+10.0 %: -35 to +55) |"
    )
    assert "(+40.0 %: +22 to +58 *)" in repeated([4.6, 5, 5.4], [6.6, 7, 7.4])
    assert "reno" not in repeated([4, 5], [4, 5]), "two runs have no spread"


def test_dctcp_is_compared_with_ecn() -> None:
    assert all(c["ecn"] for c in cells_of(["dctcp"], ["clean"]))
    assert not any(c["ecn"] for c in cells_of(["reno"], ["clean"]))


def test_the_last_run_counts_and_what_is_outside_its_bound_is_marked() -> None:
    lines = [
        run("highspeed", "clean", flow(1, 1, 1)),
        run("highspeed", "clean", flow(10, 100, 50)),
        run("tp_hstcp", "clean", flow(10.2, 106, 47.6)),
    ]
    ((key, pair),) = pairs(lines).items()
    assert row(key, pair) == (
        "| hstcp | clean | 10.00 → 10.20 (+2.0 %) | 100.00 → 106.00 (+6.0 % *) "
        "| 50.00 → 47.60 (-4.8 %) |"
    )


def test_what_an_acknowledgement_costs_is_told_of_pairs() -> None:
    lines = [
        run("highspeed", "clean", flow(1, 1, 1), 2000.4),
        run("tp_hstcp", "clean", flow(1, 1, 1), 2200.4),
        run("tp_hstcp", "loss", flow(1, 1, 1), 9999),
        run("tp_lola", "clean", flow(1, 1, 1), 2300),
    ]
    assert costs(lines).splitlines()[2:] == ["| hstcp | 2000 | 2200 | 200 |"]


def test_a_shared_bottleneck_has_a_single_tcp_beside() -> None:
    shared = multipath_cells(["lia"], ["shared"])
    assert len(multipath_cells(["lia"], [])) == 8
    assert [(c["algorithm"], c["against"], len(c["links"])) for c in shared] == [
        ("tp_lia", "reno", 1),
        ("reno", "reno", 1),
    ]
