"""Verdicts counted: the gain from abstaining, limited flows, and the fit cells."""

from dataclasses import replace

from tcplab.studies.watch import coverage, reliability, traces
from tcplab.studies.watch.judge import Outcome


def outcome(group: str, sure: float, kind: str = traces.BULK, name: str | None = None) -> Outcome:
    return Outcome("cubic", "path", group, name, 10, 1.0, kind=kind, sure=sure, name_sure=sure / 2)


def test_higher_bounds_cover_fewer_flows_more_accurately() -> None:
    found = [
        outcome("loss", 0.97, name="cubic"),
        outcome("loss", 0.85, name="reno"),
        outcome("delay", 0.65),
        outcome("unknown", 0.99),
    ]
    rows = [line.split("|") for line in coverage.curve(found).splitlines()[2:]]
    by_least = {row[1].strip(): [cell.strip() for cell in row[2:-1]] for row in rows}
    assert by_least["0"][0] == "75%" and by_least["0"][1].startswith("66.7%")
    assert by_least["0.8"][0] == "50%" and by_least["0.8"][1].startswith("100.0%")
    assert by_least["0.95"][0] == "25%"
    assert by_least["0.6"][2:] == ["0%", "-"], "a name has half of the votes here"


def test_limited_flow_is_wrong_only_in_another_group() -> None:
    found = [
        outcome("unknown", 0.9, traces.PACED),
        outcome("ant", 0.9, traces.CHUNKS),
        outcome("loss", 0.9, traces.CHUNKS),
        outcome("model", 0.9, traces.CHUNKS),
        outcome("model", 0.9),
    ]
    lines = coverage.limited(found).splitlines()
    assert [line.split(" | ")[:6] for line in lines[2:]] == [
        ["| chunks", "3", "0", "1", "1", "1"],
        ["| paced", "1", "1", "0", "0", "0"],
        ["| all", "4", "1", "1", "1", "1"],
    ]


def test_among_few_only_their_votes_count() -> None:
    votes = {"htcp": 9, "cubic": 5, "bbr": 2}
    found = [
        replace(outcome("loss", 0.9), votes=votes),
        replace(outcome("model", 0.9), algorithm="bbr", votes=votes),
        replace(outcome("unknown", 0.0), votes={"cubic": 0}),
    ]
    lines = coverage.few(found).splitlines()
    assert [line.split(" | ")[:3] for line in (lines[2], lines[-1])] == [
        ["| cubic, bbr", "3", "33%"],
        ["| all that the model knows", "3", "0%"],
    ]


def test_cell_counts_if_its_path_delay_was_accurate() -> None:
    good, late = {"ok": True, "measured": 0}, {"ok": False, "measured": 1500}
    slightly = {"ok": False, "measured": 300}
    for status, calibration, fit in (
        ("ok", {}, True),
        ("failed", {}, False),
        ("rejected", {"udp_rate_mbit": late, "relay_late_us_p99": good}, True),
        ("rejected", {"sample_late_ms_max": late, "idle_rtt_ms": good}, True),
        ("rejected", {"relay_late_us_p99": late}, False),
        ("rejected", {"relay_late_us_p99": slightly}, True),
        ("rejected", {"relay_full": late, "udp_rate_mbit": good}, False),
        ("rejected", {"window_packets_max": late, "idle_rtt_ms": good}, False),
    ):
        assert traces.is_fit({"status": status, "calibration": calibration}) == fit, calibration


def test_a_fitted_confidence_is_the_share_of_right_verdicts() -> None:
    # Of 200 flows at each share of the votes so many are right: the votes are too modest.
    shares = {0.55: 150, 0.65: 170, 0.75: 186, 0.85: 194, 0.95: 199}
    verdicts = [
        reliability.Verdict(votes, at < right)
        for votes, right in shares.items()
        for at in range(200)
    ]
    shown = reliability.fit(verdicts)
    for votes, right in shares.items():
        assert abs(shown(votes) - right / 200) < 0.02
    before, after = (reliability.table(verdicts, of) for of in (reliability.Map(), shown))
    assert before.count("**") >= 2 * len(shares)
    assert "**" not in after


def test_certain_and_unrecorded_verdicts_teach_no_probability() -> None:
    found = [
        outcome("loss", 0.9, name="cubic"),
        replace(outcome("loss", 1.0, name="cubic"), is_voted=False),
        outcome("unknown", 0.9),
        replace(outcome("model", 0.8, name="bbr"), is_twin=True),
    ]
    assert reliability.of_groups(found) == [reliability.Verdict(0.9, True)]
    assert reliability.of_names(found) == [reliability.Verdict(0.45, True)]


def test_a_models_map_is_read_from_its_file() -> None:
    model = {"calibration": {"group": {"offset": 1.0, "slope": 2.0}}}
    assert reliability.of_model(model, "group") == reliability.Map(1.0, 2.0)
    assert reliability.of_model(model, "name") == reliability.Map()
    assert abs(reliability.Map()(0.7) - 0.7) < 1e-9
