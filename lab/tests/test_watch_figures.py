"""The page of the watch's recall belongs to the models that are shipped."""

from __future__ import annotations

from tcplab.studies.watch import figures, judge, kept


def outcome(group: str, name: str | None, algorithm: str = "cubic") -> judge.Outcome:
    return judge.Outcome(algorithm, "a path", group, name, delay=12, steady=1.0)


def test_the_page_is_of_the_models_that_are_shipped() -> None:
    remedy = "run: python -m tcplab.studies.watch figures"
    assert figures.digest() in figures.PAGE.read_text(), remedy


def test_the_page_has_every_set_and_each_set_is_kept() -> None:
    page, kept_sets = figures.PAGE.read_text(), set(kept.read(figures.ROUNDS)["set"])
    assert kept_sets == set(figures.ALL_SETS)
    for one in figures.SETS:
        assert f"| {one.title} | " in page
        assert one.is_listed == (one.campaigns in page)


def test_a_row_counts_what_is_right_and_what_abstains() -> None:
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
