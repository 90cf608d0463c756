"""Every command named with a figure exists: in docs/measured, its records, and the README."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tcplab.cli.main import make_parser
from tcplab.scenario import ScenarioError, find, load, selected
from tcplab.studies import lines
from tcplab.studies.publish import MEASURED, STUDIES, Study

ROOT = MEASURED.parents[1]
PAGES = [*sorted(MEASURED.glob("*.md")), ROOT / "README.md", ROOT / "lab" / "README.md"]
PAGES.append(ROOT / "docs" / "use" / "laboratory.md")
_PLACEHOLDERS = ("NAME", "CAMPAIGN", "my.toml", "FILE")


def commands(text: str) -> Iterator[str]:
    """In backticks, also over a line's end, and in lines of blocks."""
    for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield " ".join(code.split()).partition(";")[0]
    for line in re.findall(r"^(?:    |\$ )(.*)$", text.replace("\\\n", ""), re.MULTILINE):
        yield re.split(r"\s+#|;", line.removeprefix("$ "))[0].strip()


@cache
def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def wrong(command: str) -> str | None:
    """Why a command cannot be run."""
    try:
        words = shlex.split(command.replace("…", "x"), comments=True)
    except ValueError:
        words = command.split()
    if words[:1] == ["make"]:
        missing = [w for w in words[1:] if re.fullmatch("[a-z-]+", w) and w not in targets()]
        return f"no target {missing}" if missing else None
    if words[0].startswith("python") and words[1:2] == ["-m"]:
        if words[2] == "tcplab":
            words = words[2:]
        else:
            there = importlib.util.find_spec(words[2])
            return None if there else f"no module {words[2]}"
    if words[:1] != ["tcplab"] or len(words) < 2:
        return None
    more = words[2:] or ["--help"]
    try:
        options = make_parser().parse_args([words[1], *more])
    except SystemExit as end:
        return "cannot be parsed" if end.code else None
    if words[1] != "run" or not options.scenario or options.scenario in _PLACEHOLDERS:
        return None
    try:
        selected(load(find(options.scenario), options.quick), options.only)
    except ScenarioError as problem:
        return str(problem)
    return None


def is_command(text: str) -> bool:
    return bool(re.match(r"(python3? -m tcplab|tcplab [a-z]|make [a-z])", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_exist(page: Path) -> None:
    found = [command for command in commands(page.read_text()) if is_command(command)]
    faults = {command: why for command in found if (why := wrong(command))}
    assert faults == {}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_commands_of_records_exist(study: Study) -> None:
    found = {record["command"] for record in study.records()}
    assert {command: why for command in found if (why := wrong(command))} == {}
    assert all(command.startswith("tcplab run ") for command in found)


def test_a_record_is_a_line_of_json() -> None:
    for path in (MEASURED / "data").glob("*.jsonl.xz"):
        for line in lines.read(path).splitlines():
            assert json.loads(line)["command"]


@pytest.mark.parametrize(
    "command",
    ["make nothing", "tcplab nothing", "python -m tcplab.nothing", "tcplab run --nothing"],
)
def test_a_command_that_is_gone_is_noticed(command: str) -> None:
    assert wrong(command)
