"""The pilot's campaigns without a machine: results from cells, records, the page."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from synthetic import flow_row, write_campaign, write_cell

from tcplab.engine import limits, measures, script, tuners
from tcplab.engine.script import Programs
from tcplab.metrics.programs import of_flows
from tcplab.results import writer
from tcplab.results.read import ResultsError, read_campaign
from tcplab.scenario import ScenarioError, find, load
from tcplab.scenario.model import PARTS, Cell, Tuner
from tcplab.studies.pilot import records, tables, targets

SCENARIO = {
    "links": [{"loss_percent": 10.0}],
    "flows": [{"connections": 75, "destinations": None, "streams": 1}],
}


def rows(rates_mbit: list[tuple[str, float]], warmup: int = 0, **more: Any) -> pd.DataFrame:
    """Connections of a second, one after the other: algorithm and goodput of each."""
    found = [
        flow_row(i, "bulk", cc, start_s=i, end_s=i + 1.0, bytes=round(mbit * 125_000), **more)
        for i, (cc, mbit) in enumerate(rates_mbit)
    ]
    return pd.DataFrame(found).assign(
        cc_start=[cc for cc, _ in rates_mbit], warmup=[i < warmup for i in range(len(found))]
    )


def rounds(tmp_path: Path, name: str, values: dict[str, list[int]]) -> Path:
    """A campaign whose cells have so many connections in ten seconds, by variant and repetition."""
    folder = write_campaign(tmp_path, name, {"variant": list(values)}, repetitions=3)
    for variant, counts in values.items():
        for repetition, count in enumerate(counts):
            flows = pd.DataFrame(
                [
                    flow_row(
                        i, "short", "cubic", start_s=10 * i / count, end_s=10 * (i + 1) / count
                    )
                    for i in range(count)
                ]
            )
            write_cell(folder, {"variant": variant}, repetition, flows=flows, scenario=SCENARIO)
    return folder


def only(folder: Path) -> dict[str, Any]:
    (record,) = records.of_campaign(read_campaign(folder))
    return record


def table(name: str, *found: dict[str, Any]) -> str:
    """A table of the page, made of these records."""
    return tables.renewed(f"<!-- table: {name} -->\n<!-- end -->", list(found))


def test_rounds_are_compared_by_their_medians(tmp_path: Path) -> None:
    record = only(rounds(tmp_path, "short", {"none": [100, 120], "tcpilot-few": [90]}))
    assert (record["campaign"], record["cell"]) == ("short", "short")
    assert record["results"] == {
        "none": {"values": [10.0, 12.0], "median": 11.0, "ratio": 1.0},
        "tcpilot-few": {"values": [9.0], "median": 9.0, "ratio": 0.8182},
    }


def test_a_record_says_where_it_came_from(tmp_path: Path) -> None:
    record = only(rounds(tmp_path, "short", {"none": [100]}))
    assert record["command"] == "tcplab run short --quick --kernel 6.1"
    assert record["commit"] == "0123456789" and record["kernel"] == "6.1.0-test-amd64"
    assert (record["place"], record["virtual_time"], record["seed"]) == ("machine", True, 7)


def test_a_failed_cell_makes_no_record(tmp_path: Path) -> None:
    folder = rounds(tmp_path, "short", {"none": [100]})
    write_cell(folder, {"variant": "limit"}, status="failed", error="x", scenario=SCENARIO)
    with pytest.raises(ResultsError, match="limit-r0"):
        only(folder)


def test_a_failed_short_connection_spoils_the_result(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path, "short", {"variant": ["none"]})
    flows = rows([("cubic", 1.0), ("cubic", 1.0), ("cubic", 1.0)])
    flows.loc[1, "error"] = "refused"
    write_cell(folder, {"variant": "none"}, flows=flows, scenario=SCENARIO)
    with pytest.raises(ResultsError, match="failed"):
        only(folder)


def counters(*samples: tuple[float, int, int]) -> pd.DataFrame:
    """Time, runs and nanoseconds of one program."""
    found = pd.DataFrame(samples, columns=["t_s", "runs", "ns"])
    return found.assign(program=5, name="pilot")


# Before, four intervals, one of them with a timer, and after.
STEADY = counters(
    (0.0, 0, 0), (2.9, 90, 9000), (3.1, 106, 10_600), (3.2, 122, 42_600), (3.3, 138, 44_200)
)


def test_cost_leaves_out_earlier_events_and_timer_runs() -> None:
    flows = pd.DataFrame([flow_row(i, "short", "cubic", start_s=3.0, end_s=3.25) for i in range(3)])
    found = of_flows(STEADY, flows)
    assert found == {
        "program_ns_per_event": 100.0,
        "program_events": 16.0,
        "program_ns": 1600.0,
    }


def test_programs_of_one_moment_are_added_up() -> None:
    both = pd.concat([STEADY, STEADY.assign(program=6)])
    flows = pd.DataFrame([flow_row(0, "short", "cubic", start_s=3.0, end_s=3.25)])
    assert of_flows(both, flows)["program_events"] == 96


def test_a_tool_that_saw_nothing_has_no_cost(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path, "cost", {"variant": ["limit"]})
    flows = pd.DataFrame(
        [flow_row(i, g, "cubic", start_s=1.0 + i) for i, g in enumerate(("short", "bulk"))]
    )
    idle = counters((0.0, 7, 700), (30.0, 7, 700))
    write_cell(folder, {"variant": "limit"}, flows=flows, programs=idle, scenario=SCENARIO)
    with pytest.raises(ResultsError, match="no event"):
        only(folder)


def test_cost_is_that_of_the_median_repetition(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path, "cost", {"variant": ["limit"]}, repetitions=3)
    for repetition, ns in enumerate((90, 10, 20)):
        flows = pd.DataFrame(
            [
                flow_row(0, "short", "cubic", start_s=1.0, end_s=2.0),
                flow_row(1, "bulk", "cubic", start_s=3.0, end_s=4.0),
            ]
        )
        counted = counters((0.5, 0, 0), (2.5, 16, 16 * ns), (4.5, 32, 48 * ns))
        labels = {"variant": "limit"}
        write_cell(folder, labels, repetition, flows=flows, programs=counted, scenario=SCENARIO)
    found = only(folder)["results"]["limit"]
    assert found["short"] == {
        "ns_per_event": 20.0,
        "events_per_pair": 16.0,
        "ns_per_pair": 320,
        "values": [1440, 160, 320],
    }
    assert found["bulk"]["ns_per_event"] == 40.0


def test_bpftunes_last_table_wins() -> None:
    log = """\
bpftune: IPAddress            CongAlg     Metric    Count   Greedy   MinRtt MaxRtDlvr
bpftune: ::ffff:10.200.2.2        bbr       7000        1        1       20        40
bpftune: ::ffff:10.200.2.2        bbr       3108       69        4       17        62
"""
    assert tuners.bpftune_table(log) == [
        {
            "key": "::ffff:10.200.2.2",
            "arm": "bbr",
            "cost": 3108,
            "count": 69,
            "greedy": 4,
            "min_rtt_us": 17,
            "max_delivery_rate": 62,
        }
    ]


def test_tcpilots_paths_become_rows_as_bpftunes(tmp_path: Path) -> None:
    algorithm = {"name": "bbr", "cost": None, "chosen": 3, "greedy": 1, "min_rtt_us": 17}
    path = {"prefix": "10.0.0.0/24", "netns": "left", "connections": 4, "queued_losses": 0.25}
    path["algorithms"] = [algorithm]
    (tmp_path / "tuner-paths.json").write_text(json.dumps({"schema": 1, "paths": [path]}))
    cell: Any = SimpleNamespace(tuner=SimpleNamespace(name="tcpilot"))
    found = writer._tuner(cell, tmp_path)
    assert found["connections"] == {"10.0.0.0/24": 4}
    assert found["table"] == [
        {
            "key": "10.0.0.0/24",
            "arm": "bbr",
            "count": 3,
            "queued_losses": 0.25,
            "cost": None,
            "greedy": 1,
            "min_rtt_us": 17,
        }
    ]


def test_tcpilot_may_choose_dctcp_on_every_path() -> None:
    read = tomllib.loads(find("choice").read_text())
    variants = read["sweep"]["variant"]["values"] + read["quick"]["sweep"]["variant"]["values"]
    configs = [variant["tuner"]["config"] for variant in variants if variant["label"] == "tcpilot"]
    assert len(configs) == 2
    for config in configs:
        parsed = tomllib.loads(config)
        (policy,) = parsed["policy"]
        assert parsed["algorithms"] == policy["algorithms"] == ["cubic", "bbr", "htcp", "dctcp"]
        assert policy.keys() == {"name", "algorithms"}  # it matches every connection


def test_connections_last_twenty_round_trips() -> None:
    for point in load(find("choice")).points:
        assert (point.cell.flows[0].each_s or 0) * 1000 >= 20 * point.cell.links[0].rtt_ms


def cell_of(campaign: str, variant: str) -> Cell:
    points = load(find(campaign)).points
    return next(point.cell for point in points if point.labels["variant"] == variant)


def test_cost_counts_only_programs_in_the_cells_cgroup() -> None:
    programs = Programs(Path("/bin/flowgen"), Path("/bin/tcpilot"), Path("/cell"))
    counted = script.text(cell_of("cost", "floor"), programs)
    assert '--programs /proc/self/fd/9 9<"${cgroup:-' in counted
    assert counted.index("attached tuner.err") < counted.index("flowgen play")
    assert "--programs" not in script.text(cell_of("bulk", "none"), programs)


def test_memory_is_read_idle_full_and_after_queries() -> None:
    cell = cell_of("memory", "tcpilot")
    before, after = measures.start(cell), measures.stop(cell)
    assert before[-1] == "resident idle"
    assert [line for line in after if "\n" not in line] == [
        "sleep 65",
        "resident full",
        "resident queries",
    ]


def test_the_limits_parts_are_those_of_the_program() -> None:
    assert [part.name.lower() for part in limits.Part if part.name] == list(PARTS)


@pytest.mark.parametrize("parts", [(), ("set",), PARTS[1:], PARTS])
def test_every_limit_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TCPILOT_CACHE", str(tmp_path))
    assert limits.compiled(Tuner(name="limit", parts=parts)).read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ('[tuner]\nname = "tcpilot"\nparts = ["set"]', "8: parts: tcpilot has none; limit has"),
        ('[tuner]\nname = "limit"\nparts = ["all"]', "8: parts: a list of set, random, "),
        ("[measure]\nmemory = true", "7: memory: 'none' is no tuner with a process"),
    ],
)
def test_unsupported_tuner_settings_are_refused(tmp_path: Path, key: str, expected: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'title = "x"\n[[link]]\npath = "direct"\n[[flow]]\nname = "a"\n{key}\n')
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert [line.startswith(f"{path}:{expected}") for line in caught.value.lines] == [True]


def test_the_table_names_what_was_missed() -> None:
    found = {"values": [1.0], "median": 1.0, "ratio": 0.5}
    record = {"campaign": "short", "place": "machine", "labels": {"path": "direct"}}
    results = {"limit": {**found, "median": 2.0}, "tcpilot-few": found}
    text = table("short machine", {**record, "results": results})
    assert "| tcpilot, new path | 1 | 0.500 | 1 |" in text
    assert "- **missed**: tcpilot-few, of the limit program's rate at least 0.99: 0.500" in text


def test_memory_is_judged_by_its_peak() -> None:
    resident = {"queries": {"rss_kb": 16_000, "peak_kb": 90_000}}
    record = {"campaign": "memory", "results": {"resident": resident}}
    assert [v.met for v in targets.verdicts(record)] == [False]


def test_cost_is_judged_against_an_equivalent_floor() -> None:
    def kinds(nanoseconds: int) -> dict[str, Any]:
        return {"short": {"ns_per_pair": nanoseconds}}

    results = {"limit": 1000, "limit-set": 2000, "floor": 2000, "floor-set": 3000}
    results |= {"tcpilot-learned": 2700, "tcpilot-bbr": 3800}
    found = {tool: kinds(value) for tool, value in results.items()}
    met = {v.what: v.met for v in targets.verdicts({"campaign": "cost", "results": found})}
    assert not met["tcpilot-learned, floors at most 1.3"]
    assert met["tcpilot-bbr, floors at most 1.3"]
    assert met["tcpilot-bbr, limits at most 2"]
    assert not met["tcpilot-learned, limits at most 2"]
