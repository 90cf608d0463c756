"""Publishes campaigns in docs/measured: each study's records in data/STUDY.jsonl.xz, and its pages.

A study is two functions: `of_campaign` makes records of a campaign, and `renewed` makes the tables
of a page from all records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcplab.results.read import Campaign, ResultsError, read_campaign
from tcplab.studies import cells
from tcplab.studies import page as pages
from tcplab.studies.campaigns import records as campaigns_records
from tcplab.studies.campaigns import tables as campaigns_tables
from tcplab.studies.cc import records as cc_records
from tcplab.studies.cc import tables as cc_tables
from tcplab.studies.cells import Record
from tcplab.studies.effect import records as effect_records
from tcplab.studies.effect import tables as effect_tables
from tcplab.studies.l4s import records as l4s_records
from tcplab.studies.l4s import tables as l4s_tables
from tcplab.studies.learner import records as learner_records
from tcplab.studies.learner import tables as learner_tables
from tcplab.studies.multipath import records as multipath_records
from tcplab.studies.multipath import tables as multipath_tables
from tcplab.studies.pilot import records as pilot_records
from tcplab.studies.pilot import tables as pilot_tables

MEASURED = Path(__file__).parents[3] / "docs" / "measured"


@dataclass(frozen=True)
class Study:
    """Campaigns whose figures stand on the same pages."""

    name: str
    campaigns: tuple[str, ...]
    of_campaign: Callable[[Campaign], list[Record]]
    renewed: Callable[[str, list[Record]], str]
    page_names: tuple[str, ...] = ()
    """Unless one page has the study's name."""
    takes_quick: bool = False
    whole_axis: str | None = None
    """A record needs every value of this axis."""

    @property
    def data(self) -> Path:
        return MEASURED / "data" / f"{self.name}.jsonl.xz"

    @property
    def pages(self) -> list[Path]:
        return [MEASURED / f"{name}.md" for name in self.page_names or (self.name,)]

    def records(self) -> list[Record]:
        """The published ones."""
        return list(cells.load(self.data).values())

    def faults(self, campaign: Campaign) -> list[str]:
        """Why nobody could make these figures again from their commit and command."""
        manifest = campaign.manifest
        only = [word.partition("=")[0] for word in manifest.get("only") or []]
        wrong = {
            "its commit is not known": not manifest["commit"],
            "files differed from its commit": manifest["dirty"],
            "it is a quick form": manifest["quick"] and not self.takes_quick,
            f"it has not every {self.whole_axis}": self.whole_axis in only,
        }
        return [why for why, is_so in wrong.items() if is_so]


def _watch_recall(page: str, records: list[Record]) -> str:
    """The page of the watch's recordings.  Needs scikit-learn; its import takes a second."""
    from tcplab.studies.watch import figures

    return figures.renewed(page, records)


STUDIES = (
    Study(
        "campaigns",
        ("rtt-fairness", "fct", "native", "cellular"),
        campaigns_records.of_campaign,
        campaigns_tables.renewed,
    ),
    Study(
        "congestion-controls",
        ("modules", "laws"),
        cc_records.of_campaign,
        cc_tables.renewed,
        page_names=("congestion-controls", "congestion-controls-cells"),
    ),
    Study(
        "effect",
        ("effect", "effect-days", "effect-guard"),
        effect_records.of_campaign,
        effect_tables.renewed,
        takes_quick=True,
    ),
    Study(
        "l4s",
        ("l4s", "l4s-step"),
        l4s_records.of_campaign,
        l4s_tables.renewed,
        takes_quick=True,
    ),
    Study(
        "learner",
        (
            "change",
            "choice-utility",
            "cold",
            "gain",
            "interference",
            "long",
            "shapes",
            "strangers",
        ),
        learner_records.of_campaign,
        learner_tables.renewed,
    ),
    Study(
        "multipath",
        ("mpquic", "mptcp", "path-down", "path-down-wvegas", "path-shared", "quic-single"),
        multipath_records.of_campaign,
        multipath_tables.renewed,
    ),
    Study(
        "pilot",
        ("choice", "cost", "tunings", "short", "bulk", "memory", "scale"),
        pilot_records.of_campaign,
        pilot_tables.renewed,
        page_names=("results",),
        whole_axis="variant",
    ),
    Study("watch-recall", (), lambda _: [], _watch_recall),
)


def study_of(campaign: Campaign) -> Study:
    """Raises ResultsError if no study takes it."""
    for study in STUDIES:
        if campaign.name in study.campaigns:
            return study
    there = ", ".join(name for study in STUDIES for name in study.campaigns)
    raise ResultsError(f"{campaign.folder}: no page has {campaign.name}; published are {there}")


def publish(folders: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Takes these campaigns' records into the data and renews the pages of their studies; without a
    campaign, every page.  Returns the written files, and reasons for refused campaigns."""
    found: dict[str, list[Record]] = {}
    refused = []
    for folder in folders:
        try:
            name, more = _records(folder)
            found.setdefault(name, []).extend(more)
        except ResultsError as problem:
            refused.append(str(problem))
    written = []
    for study in STUDIES:
        if study.name in found:
            known = cells.load(study.data)
            known |= {cells.key(record): record for record in found[study.name]}
            cells.save(study.data, known)
            written.append(study.data)
        if study.name in found or not folders:
            for page, text in renewed(study).items():
                page.write_text(text, encoding="utf-8")
                written.append(page)
    return written, refused


def _records(folder: Path) -> tuple[str, list[Record]]:
    """A campaign's study and records, if they may be published.  Raises ResultsError."""
    campaign = read_campaign(folder)
    study = study_of(campaign)
    if wrong := study.faults(campaign):
        raise ResultsError(f"{folder} is not published: {', '.join(wrong)}")
    return study.name, study.of_campaign(campaign)


def renewed(study: Study) -> dict[Path, str]:
    """The pages, with tables from the study's records."""
    records = study.records()
    return {page: study.renewed(page.read_text(encoding="utf-8"), records) for page in study.pages}


def shown(folder: Path) -> str:
    """A campaign's tables as its page would have them, without publishing.  Raises ResultsError."""
    campaign = read_campaign(folder)
    study = study_of(campaign)
    text = "".join(page.read_text(encoding="utf-8") for page in study.pages)
    empty, full = (
        pages.tables(study.renewed(text, records)) for records in ([], study.of_campaign(campaign))
    )
    return "\n".join(
        f"{name} {place}\n{table}"
        for (name, place), table in full.items()
        if table != empty[name, place] and place != "all"
    )
