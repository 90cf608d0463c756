"""The page of the watch's recall belongs to the shipped models."""

from __future__ import annotations

from tcplab.studies.publish import MEASURED
from tcplab.studies.watch import figures, judge, kept

PAGE = MEASURED / "watch-recall.md"


def outcome(group: str, name: str | None, algorithm: str = "cubic") -> judge.Outcome:
    return judge.Outcome(algorithm, "a path", group, name, delay=12, steady=1.0)


def test_page_matches_the_shipped_models() -> None:
    assert figures.digest() in PAGE.read_text(), "run: tcplab publish"


def test_page_lists_every_set_with_stored_data() -> None:
    page, kept_sets = PAGE.read_text(), set(kept.read(figures.ROUNDS)["set"])
    assert kept_sets == set(figures.ALL_SETS)
    for one in figures.SETS:
        assert f"| {one.title} | " in page
        assert one.is_listed == (one.campaigns in page)


def test_a_row_counts_correct_and_abstaining_verdicts() -> None:
    outcomes = [
        *[outcome("loss", "cubic")] * 2,
        outcome("unknown", None),
        outcome("loss", "reno"),
        outcome("model", "bbr", "bbr"),
    ]
    of = judge.figures(outcomes)
    assert (of.flows, of.right, of.named, of.unknown) == (5, 4, 0.6, 0.2)
    assert of.recall == (3 / 4 + 1) / 2
    cells = judge.row("title", outcomes).strip("| ").split(" | ")
    assert cells[:3] == ["title", "5", "87.5%"]
    assert len(cells) == judge.HEAD_OF_ROWS.splitlines()[0].count("|") - 1
