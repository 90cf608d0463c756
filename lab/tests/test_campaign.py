"""Directories, order and batches of a campaign, without running it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tcplab.cli import commands
from tcplab.cli.main import main
from tcplab.engine.job import Job, Settings
from tcplab.results import manifest
from tcplab.run import campaign, plan
from tcplab.run.local import Done
from tcplab.run.progress import duration
from tcplab.scenario import ScenarioError, find, load, selected

SETTINGS = Settings("vm", "6.12", True, "/bin/flowgen", "/bin/tcpilot", 60)
ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_directories_are_unique_and_latest_links_the_newest(tmp_path: Path) -> None:
    first = manifest.create(tmp_path, "bbr", NOW)
    second = manifest.create(tmp_path, "bbr", NOW)
    assert (first.name, second.name) == ("bbr-20260102T030405Z", "bbr-20260102T030405Z-2")
    assert (tmp_path / "latest").readlink() == Path(second.name)


def test_job_order_is_random_but_reproducible(tmp_path: Path) -> None:
    scenario = load(find("fairness"), quick=True)
    jobs = plan.jobs(scenario, tmp_path, SETTINGS)
    assert jobs == plan.jobs(scenario, tmp_path, SETTINGS)
    assert [job.order for job in jobs] == list(range(14))
    assert [job.id for job in jobs] != sorted(job.id for job in jobs)
    # Points are compared with each other, so they get the same random sizes.
    assert len({job.seed for job in jobs}) == 1


def test_a_campaign_broken_off_has_whole_repetitions(tmp_path: Path) -> None:
    jobs = plan.jobs(load(find("path-down")), tmp_path, SETTINGS)
    points = len(jobs) // 6
    repetitions = [job.repetition for job in jobs]
    assert repetitions == [number for number in range(6) for _ in range(points)]
    first, second = ([job.labels for job in jobs[at : at + points]] for at in (0, points))
    assert first != second and sorted(map(str, first)) == sorted(map(str, second))


def test_tuners_have_a_machine_of_their_own(tmp_path: Path) -> None:
    jobs = plan.jobs(load(find("choice"), quick=True), tmp_path, SETTINGS)
    batches = plan.batches(jobs, 8)
    assert sorted(len(batch) for batch in batches) == [1, 1, 4]
    assert {job.id for batch in batches for job in batch} == {job.id for job in jobs}
    # A program for measuring cost changes nothing on the machine.
    floors = plan.batches(plan.jobs(load(find("cost"), quick=True), tmp_path, SETTINGS), 8)
    assert sorted(len(batch) for batch in floors) == [1, 1, 4]


def test_resuming_restores_the_selected_part_of_a_sweep(tmp_path: Path) -> None:
    whole = load(find("choice"), quick=True)
    only = ["variant=cubic,bbr", "condition=loss10"]
    part = selected(whole, only)
    assert [list(p.labels.values()) for p in part.points] == [
        ["router", "loss10", "cubic"],
        ["router", "loss10", "bbr"],
    ]
    assert part.axes == {"path": ["router"], "condition": ["loss10"], "variant": ["cubic", "bbr"]}
    how = {"engine": "vm", "only": only}
    manifest.write(tmp_path, manifest.content(part, [], how))
    (tmp_path / manifest.SCENARIO).write_text(part.source)
    assert campaign.scenario_of(tmp_path).points == part.points


def test_a_label_with_commas_can_be_asked_for() -> None:
    part = selected(
        load(find("watch-qdisc")), ["variant=BPF,HTB, few queues, actions,HTB, actions"]
    )
    assert part.axes["variant"] == ["BPF", "HTB, actions", "HTB, few queues, actions"]


def test_a_repetition_run_alone_keeps_its_seed(tmp_path: Path) -> None:
    whole = load(find("choice-utility"))
    alone = selected(whole, ["repetition=2", "variant=bbr"])
    jobs = {job.id: job.seed for job in plan.jobs(alone, tmp_path, SETTINGS)}
    assert len(jobs) == len(whole.axes["condition"])
    of_all = {job.seed for job in plan.jobs(whole, tmp_path, SETTINGS) if job.repetition == 2}
    assert set(jobs.values()) == of_all and all(name.endswith(".2") for name in jobs)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("repetition=1", "there is no repetition '1'; it is 0; the scenario's `repetitions` says"),
        ("tool=cubic", "there is no axis 'tool'; there are path, condition, variant"),
        ("variant=cubic,best", "variant is never 'best'; it is cubic, bbr, tcpilot"),
        ("variant", "variant is never ''; it is cubic, bbr, tcpilot"),
    ],
)
def test_a_part_that_is_not_there_is_refused(word: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        selected(load(find("choice"), quick=True), [word])


def test_manifest_says_where_it_came_from(tmp_path: Path) -> None:
    scenario = load(find("bbr"), quick=True)
    found = manifest.content(scenario, ["tcplab", "run", "bbr"], {"engine": "vm"})
    manifest.write(tmp_path, found)
    assert manifest.read(tmp_path) == json.loads(json.dumps(found))
    assert found["axes"] == {"case": ["loss", "bloat"], "cc": ["cubic", "bbr"]}
    assert found["scenario_toml"] == scenario.source and found["quick"] is True
    assert {"numpy", "pandas", "pyarrow"} <= set(found["packages"])


def test_commands_refuse_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text('title = "x"\n[[link]]\nrate = 3\n[[flow]]\nname = "a"\n')
    for arguments, status, text in [
        (["check", str(bad)], 2, f"{bad}:3: unknown key 'rate'; did you mean 'rate_mbit'?"),
        (["run", "nothing"], 2, "there is no such campaign"),
        (["run"], 2, "name a campaign"),
        (["run", "bbr", "--resume", str(tmp_path)], 2, "name a campaign"),
        (["run", "--resume", str(tmp_path)], 1, "there is no campaign to resume"),
        (["run", "bbr", "--rejected"], 2, "--rejected is for --resume"),
        (["run", "bbr", "--engine", "here", "--virtual-time"], 1, "needs --engine vm"),
        (["run", "bbr", "--binaries", "nowhere"], 1, "nowhere/flowgen is missing"),
    ]:
        assert main(arguments) == status, arguments
        assert text in capsys.readouterr().err
    assert not Path("results").exists()


def test_cells_with_the_same_error_are_grouped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = load(find("bbr"), quick=True)
    manifest.write(tmp_path, manifest.content(scenario, [], {"engine": "vm", "virtual_time": True}))

    def fail(batches: list[list[Job]]) -> Iterator[Done]:
        jobs = [job for batch in batches for job in batch]
        yield Done(jobs[0], 0.1, "no room")
        yield from (Done(job, 0.1, "no clang") for job in jobs[1:])

    outcome = campaign.run(scenario, SETTINGS, tmp_path, fail)
    assert outcome.failed == 4
    assert commands._tell(outcome, as_json=False) == 1
    said = capsys.readouterr().err
    first = outcome.errors["no clang"][0]
    assert [line for line in said.splitlines() if line.startswith("tcplab")] == [
        f"tcplab: {outcome.errors['no room'][0]}: no room",
        f"tcplab: 3 cells, {first} the first: no clang",
    ]
    assert said.count("no clang") == 2, "by the first cell, and at the end"


def test_dropping_rejected_cells_keeps_the_others(tmp_path: Path) -> None:
    scenario = load(find("bbr"), quick=True)
    manifest.write(tmp_path, manifest.content(scenario, [], {"engine": "vm", "virtual_time": True}))
    jobs = plan.jobs(scenario, tmp_path, SETTINGS)
    for job, state in zip(jobs, ("ok", "rejected", "failed"), strict=False):
        job.place.mkdir(parents=True)
        (job.place / "cell.json").write_text(json.dumps({"status": state}))
    campaign.drop_rejected(tmp_path)
    there = [job.place.exists() for job in jobs]
    assert there == [True, False, True, False]
    assert [campaign.is_complete(job.place) for job in jobs] == [True, False, False, False]


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = shlex.join([sys.executable, "-m", "tcplab", "list"])
    answer = subprocess.run(
        ["sh", "-c", f"{command} | head -n 1"], capture_output=True, text=True, cwd=ROOT
    )
    assert answer.stdout.count("\n") == 1 and answer.stderr == ""


def test_list_names_every_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"fairness", "mptcp"} <= {row["name"] for row in rows}
    assert all(row["cells"] >= row["quick_cells"] > 0 for row in rows)


def test_time_left_is_said_as_people_say_it() -> None:
    assert [duration(s) for s in (40, 65, 3900)] == ["40 s", "1 min", "1 h 05 min"]


def test_batch_is_limited_to_the_machines_slots(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "bbr", "--batch", "25"])
    assert "a number from 1 to 24 is expected" in capsys.readouterr().err
