"""Typed reading of result directories.

A campaign is a folder with `manifest.json` and `cells/<id>/`; a cell is complete when its
`cell.json` exists.  Nothing here writes.  Times are seconds from the start of the measured traffic;
unmeasured values are None, and missing tables are empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import pandas as pd

from tcplab.scenario.select import FORMER_AXES

Label = str | int | float | bool
Labels = dict[str, Label]
Status = Literal["ok", "rejected", "failed"]

FLOW_COLUMNS = [
    "flow",
    "group",
    "side",
    "cc_wanted",
    "cc_used",
    "start_s",
    "end_s",
    "bytes",
    "fct_s",
    "standstill_s",
    "retransmitted_packets",
    "sent_packets",
    "ecn",
    "error",
    "arm",
    "warmup",
    "to",
    "prefix",
    "srtt_us",
    "busy_s",
    "window_limited_s",
    "buffer_limited_s",
]
SAMPLE_COLUMNS = [
    "t_s",
    "flow",
    "link",
    "cwnd_packets",
    "ssthresh_packets",
    "srtt_us",
    "min_rtt_us",
    "delivery_rate",
    "pacing_rate",
    "bytes_acked",
    "retransmitted_packets",
    "sent_packets",
    "lost_packets",
    "inflight_packets",
    "cc",
]
PROBE_COLUMNS = ["t_s", "probe", "delay_ms"]
PROGRAM_COLUMNS = ["t_s", "program", "name", "runs", "ns"]
QUEUE_COLUMNS = [
    "t_s",
    "link",
    "qdisc",
    "backlog_bytes",
    "backlog_packets",
    "drops",
    "marks",
    "sent_bytes",
    "sent_packets",
]


class ResultsError(Exception):
    """A result directory is missing, damaged, or of another format; names the file and the
    reason."""


@dataclass(frozen=True)
class Check:
    """One calibration: the expected and the measured value, and whether they agree."""

    expected: Any
    measured: Any
    ok: bool


@dataclass(frozen=True)
class Group:
    """Flows of one name in the scenario."""

    base_rtt_ms: float | None
    """Round-trip time without a queue."""
    links: tuple[str, ...]
    """The links crossed, the bottleneck first."""
    count: int


@dataclass(frozen=True)
class OwnPath:
    """The path to one of many destinations."""

    prefix: int
    rtt_ms: float
    rate_mbit: float | None
    loss_percent: float


@dataclass(frozen=True)
class Ideal:
    """The part of a cell's configuration for metrics."""

    duration_s: float | None
    rates_mbit: dict[str, float]
    """Rate of each link; the first is the bottleneck."""
    groups: dict[str, Group]
    destinations: dict[str, OwnPath] = field(default_factory=dict)
    """By address; empty unless there are many."""
    phases_s: tuple[float, ...] = ()
    """Start, times of the changes, and end, of a run whose path changed."""

    @property
    def bottleneck(self) -> str | None:
        """Name of the first link."""
        return next(iter(self.rates_mbit), None)


@dataclass(frozen=True)
class Tuner:
    """The record of a tuner: its name and its table, a row per path and arm."""

    name: str
    version: str | None
    table: list[dict[str, Any]]
    log: str
    status: dict[str, Any] = field(default_factory=dict)
    """tcpilot's answer to `status`, after the traffic."""
    connections: dict[str, int] = field(default_factory=dict)
    """Connections in tcpilot's table, by path."""


@dataclass(frozen=True)
class Cell:
    """One job of a campaign: one point of the sweep, one repetition."""

    folder: Path
    id: str
    labels: Labels
    repetition: int
    status: Status
    error: str | None
    calibration: dict[str, Check]
    ideal: Ideal
    kernel: str | None
    raw: dict[str, Any] = field(repr=False)
    """All of cell.json."""

    def flows(self) -> pd.DataFrame:
        """A row per connection; empty if none was recorded."""
        return _table(self.folder / "flows.parquet", FLOW_COLUMNS)

    def samples(self) -> pd.DataFrame:
        """The connections' state, sampled, in order of time."""
        return _table(self.folder / "samples.parquet", SAMPLE_COLUMNS).sort_values(
            "t_s", kind="stable"
        )

    def queues(self) -> pd.DataFrame:
        """The qdiscs' counters, sampled, in order of time."""
        return _table(self.folder / "queues.parquet", QUEUE_COLUMNS).sort_values(
            "t_s", kind="stable"
        )

    def probes(self) -> pd.DataFrame:
        """A row per datagram of udp and ping flows; a missing delay is a loss."""
        return _table(self.folder / "probes.parquet", PROBE_COLUMNS)

    def tuner(self) -> Tuner | None:
        """None unless a tuner ran."""
        file = self.folder / "tuner.json"
        if not file.exists():
            return None
        found = _json(file)
        return Tuner(
            name=str(found.get("name", "")),
            version=found.get("version"),
            table=[{"arm": row.get("name"), **row} for row in found.get("table") or []],
            log=_text(found.get("log")),
            status=found.get("status") or {},
            connections=found.get("connections") or {},
        )

    def acks(self) -> dict[str, dict[str, int]]:
        """Acknowledgements and the kernel's nanoseconds on them, by congestion control; empty if
        they were not measured."""
        file = self.folder / "acks.json"
        return _json(file) if file.exists() else {}

    def programs(self) -> pd.DataFrame:
        """Runs and nanoseconds of each of the tuner's programs so far, sampled; empty if they were
        not measured."""
        return _table(self.folder / "programs.parquet", PROGRAM_COLUMNS)

    def memory(self) -> dict[str, dict[str, int]]:
        """Resident and peak kB of the tuner's process by stage; empty if they were not measured."""
        file = self.folder / "memory.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        stages = {stage.pop("at"): stage for stage in map(json.loads, lines)}
        return cast(dict[str, dict[str, int]], stages)

    def metrics(self) -> dict[str, Any] | None:
        """metrics.json as stored; None if it has not been computed."""
        file = self.folder / "metrics.json"
        return _json(file) if file.exists() else None


@dataclass(frozen=True)
class Campaign:
    """A result directory."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["campaign"])

    @property
    def title(self) -> str:
        return str(self.manifest.get("title") or self.name)

    @property
    def place(self) -> str:
        """An emulated machine (`machine`), or a host's own kernel in real time (`host`)."""
        return "host" if self.manifest["engine"] == "here" else "machine"

    @property
    def axes(self) -> dict[str, list[Label]]:
        """The swept axes, in the order of the sweep."""
        return cast(dict[str, list[Label]], self.manifest.get("axes") or {})

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario as resolved before the sweep."""
        return cast(dict[str, Any], self.manifest.get("scenario") or {})

    def cells(self) -> Iterator[Cell]:
        """Complete cells, in the order of their names."""
        folder = self.folder / "cells"
        if folder.is_dir():
            for file in sorted(folder.glob("*/cell.json")):
                yield read_cell(file.parent)

    def summary(self) -> dict[str, Any] | None:
        """summary.json as stored; None if it has not been computed."""
        file = self.folder / "summary.json"
        return _json(file) if file.exists() else None


def read_campaign(folder: Path | str) -> Campaign:
    """Opens a result directory, or the newest of a folder of them by its `latest` link.

    Raises ResultsError where there is none, or its format is not ours.
    """
    path = Path(folder)
    if not (path / "manifest.json").exists() and (path / "latest" / "manifest.json").exists():
        path = (path / "latest").resolve()
    if not (path / "manifest.json").exists():
        raise ResultsError(f"{path}: no result directory (manifest.json is missing)")
    manifest = _json(path / "manifest.json")
    if manifest.get("format") != 1:
        raise ResultsError(f"{path}: manifest has format {manifest.get('format')}, known is 1")
    if "campaign" not in manifest:
        raise ResultsError(f"{path / 'manifest.json'}: key 'campaign' is missing")
    return Campaign(path, manifest)


def _labels(raw: dict[str, Any]) -> Labels:
    """The labels, with the present names of axes."""
    return {FORMER_AXES.get(axis, axis): label for axis, label in raw.items()}


def read_cell(folder: Path) -> Cell:
    """Opens one cell.  Raises ResultsError if cell.json is missing or lacks a key."""
    file = folder / "cell.json"
    raw = _json(file)
    try:
        return Cell(
            folder=folder,
            id=str(raw["id"]),
            labels=_labels(raw["labels"]),
            repetition=int(raw["repetition"]),
            status=_status(raw["status"]),
            error=raw.get("error"),
            calibration={name: _check(c) for name, c in (raw.get("calibration") or {}).items()},
            ideal=_ideal(raw.get("ideal") or {}),
            kernel=raw.get("kernel"),
            raw=raw,
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ResultsError(f"{file}: {problem!r}") from problem


def _status(text: str) -> Status:
    if text not in ("ok", "rejected", "failed"):
        raise ValueError(f"status {text!r}")
    return cast(Status, text)


def _check(raw: Mapping[str, Any]) -> Check:
    expected = raw.get("expected", raw.get("limit"))
    return Check(expected, raw.get("measured"), bool(raw.get("ok")))


def _ideal(raw: Mapping[str, Any]) -> Ideal:
    groups = {
        name: Group(
            base_rtt_ms=g.get("base_rtt_ms"),
            links=tuple(g.get("links") or ()),
            count=int(g.get("count") or 1),
        )
        for name, g in (raw.get("groups") or {}).items()
    }
    links = raw.get("links") or {}
    rates = {n: float(link["rate_mbit"]) for n, link in links.items() if link.get("rate_mbit")}
    many = {address: OwnPath(**path) for address, path in (raw.get("destinations") or {}).items()}
    phases = tuple(float(at_s) for at_s in raw.get("phases_s") or ())
    return Ideal(raw.get("duration_s"), rates, groups, many, phases)


def _table(file: Path, columns: list[str]) -> pd.DataFrame:
    """A Parquet table with at least these columns; those it lacks are empty."""
    if not file.exists():
        return pd.DataFrame({name: pd.Series(dtype="float64") for name in columns})
    try:
        frame = pd.read_parquet(file)
    except (OSError, ValueError) as problem:
        raise ResultsError(f"{file}: {problem}") from problem
    for name in columns:
        if name not in frame:
            frame[name] = None
    return frame


def _text(log: Any) -> str:
    """A log as text, whether it was stored so or line by line."""
    return "\n".join(map(str, log)) if isinstance(log, list) else str(log or "")


def _json(file: Path) -> dict[str, Any]:
    try:
        return cast(dict[str, Any], json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as problem:
        raise ResultsError(f"{file}: {problem}") from problem
