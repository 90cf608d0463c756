"""Writes a cell's directory from its script's output: Parquet files, and last `cell.json`, present
only in a complete cell."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tcplab import topology
from tcplab.engine import acks, calibration, measures, relay, watcher
from tcplab.engine.job import Job
from tcplab.engine.need import modules
from tcplab.engine.tuners import bpftune_table
from tcplab.results import windows
from tcplab.scenario import traces
from tcplab.scenario.destinations import Destination, destinations
from tcplab.scenario.model import SYSTEM, Cell, Link, cell_from_json

FCT = "from before connect() to the receiver's word that it has every byte"
_FLOW_COLUMNS = {
    "flow": "int64",
    "group": "str",
    "side": "str",
    "cc_wanted": "str",
    "cc_start": "str",
    "cc_used": "str",
    "start_s": "float64",
    "end_s": "float64",
    "wanted_bytes": "int64",
    "bytes": "int64",
    "fct_s": "float64",
    "standstill_s": "float64",
    "retransmitted_packets": "int64",
    "sent_packets": "int64",
    "ecn": "bool",
    "error": "str",
    "arm": "str",
    "warmup": "bool",
    "srtt_us": "int64",
    "busy_s": "float64",
    "window_limited_s": "float64",
    "buffer_limited_s": "float64",
    "local_port": "int64",
    "to": "str",
    "prefix": "Int64",
}
_TIMES = ("busy_s", "window_limited_s", "buffer_limited_s")
"""The kernel's account of a connection's time; of TCP's only."""
_LOG_LINES = 60
_TABLE_PATHS = 1000
"""The busiest paths of tcpilot's table keep all figures, the others only their connections."""


def write(job: Job, cell: Cell, work: Path, error: str | None, wall_s: float) -> Path:
    """The directory of a cell, from its working folder.  Raises OSError, a full disk included.

    It grows under a temporary name and is renamed when complete.
    """
    error = error or _traffic_error(_maybe_json(work / "play.json"))
    new = work.parent / f"{work.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        content = _content(job, cell, work, error, wall_s)
        if error is None:
            _tables(cell, work, new)
            if cell.tuner.name != "none":
                _json(new / "tuner.json", _tuner(cell, work))
            captures = [f"{end}.pcap" for end in cell.capture.ends()]
            measured = [acks.FILE] if acks.is_wanted(cell) else []
            measured += [measures.MEMORY] if cell.measure.memory else []
            for name in (*watcher.files(cell), *captures, *measured):
                shutil.copyfile(work / name, new / name)
        elif (work / "script.log").exists():
            shutil.copyfile(work / "script.log", new / "script.log")
        _json(new / "cell.json", content)
        shutil.rmtree(job.place, ignore_errors=True)
        job.place.parent.mkdir(parents=True, exist_ok=True)
        new.rename(job.place)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return job.place


def _content(job: Job, cell: Cell, work: Path, error: str | None, wall_s: float) -> dict[str, Any]:
    verdict: dict[str, Any] = {}
    if error is None:
        count = len(calibration.targets(cell))
        reports = [json.loads((work / f"calibrate-{i}.json").read_text()) for i in range(count)]
        verdict = calibration.verdict(cell, reports, _maybe_json(work / "play.json"))
    relayed = _json_lines(work / "relay.json")
    if relayed:
        verdict |= relay.verdict(cell, relayed)
    if error is None:
        verdict |= windows.verdict(pd.read_csv(work / "samples.csv"))
    rejected = any(not entry["ok"] for entry in verdict.values())
    return {
        "id": job.id,
        "labels": job.labels,
        "repetition": job.repetition,
        "seed": job.seed,
        "order": job.order,
        "status": "failed" if error else "rejected" if rejected else "ok",
        "error": error,
        "calibration": verdict,
        "play": _maybe_json(work / "play.json"),
        "delays": cell.delays,
        "relay_processor": cell.relay_processor,
        "processor_s": measures.processor_s(work),
        "stand_ins": _stand_ins(job, cell),
        "relay": relayed,
        "kernel": _maybe_text(work / "release"),
        "sysctls": _sysctls(work / "sysctls"),
        "qdisc_state": {when: _qdiscs(work / f"qdisc-{when}") for when in ("before", "after")},
        "commands": _commands(work),
        "modules": list(modules(cell)),
        "engine": job.settings.engine,
        "virtual_time": job.settings.virtual_time,
        "wall_s": round(wall_s, 3),
        "virtual_s": _between(work),
        "fct": FCT,
        "ideal": ideal(cell),
        "scenario": job.cell,
    }


def _stand_ins(job: Job, cell: Cell) -> dict[str, str]:
    """tcpilot's algorithms used in place of the kernel's, by the kernel's names."""
    asked = cell_from_json(job.cell).flows
    pairs = ((flow.cc, ran.cc) for flow, ran in zip(asked, cell.flows, strict=True))
    return {name: own for name, own in pairs if name != own}


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _traffic_error(play: dict[str, Any] | None) -> str | None:
    """Some connections may fail, on a bad path above all; if none succeeds, it is no experiment."""
    if play is None:
        return None
    if play["rows"] == play["errors"]:
        return f"no connection succeeded: {play['first_error'] or 'there was none'}"
    return None


def ideal(cell: Cell) -> dict[str, Any]:
    """The path's limits for a perfect user, the reference of metrics."""
    names = list(dict.fromkeys(link.shares or link.name for link in cell.links))
    groups = {
        flow.name: {
            "base_rtt_ms": cell.links[0].rtt_ms + flow.extra_rtt_ms,
            "links": names if flow.multipath else names[:1],
            "count": flow.streams,
        }
        for flow in cell.present()
        if not flow.is_datagrams
    }
    links = {link.name: {"rate_mbit": _mean_rate(link)} for link in cell.links}
    found = {"duration_s": cell.duration_s, "links": links, "groups": groups}
    changes = sorted({change.at_s for change in cell.changes})
    if changes:
        found["phases_s"] = [0.0, *changes, cell.duration_s]
    # On a direct path they have nothing of their own.
    routed = cell.links[0].path != "direct"
    many = {one.address: _own(cell, one) for one in destinations(cell) if routed}
    return {**found, "destinations": many} if many else found


def _mean_rate(link: Link) -> float | None:
    return round(traces.mean_mbit(traces.text(link.trace)), 3) if link.trace else link.rate_mbit


def _traced_queues(cell: Cell, work: Path) -> pd.DataFrame:
    """pathrelay's samples of the queue before each trace, as the queues' samples."""
    rows: list[dict[str, Any]] = []
    start_ns = (_maybe_json(work / "play.json") or {}).get("start_ns", 0)
    names = [link.name for link in cell.links if link.trace]
    for name, report in zip(names, _json_lines(work / "relay.json"), strict=False):
        for sample in report["there"]["samples"]:
            rows.append(
                {
                    "t_s": round((sample["at_ns"] - start_ns) / 1e9, 6),
                    "link": name,
                    "qdisc": "trace",
                    "backlog_bytes": sample["queue_bytes"],
                    "backlog_packets": sample["queue_packets"],
                    "drops": sample["dropped"],
                    "marks": None,
                    "sent_bytes": sample["passed_bytes"],
                    "sent_packets": sample["passed_packets"],
                    "offered_bytes": sample["offered_bytes"],
                }
            )
    found = pd.DataFrame(rows)
    return found[found["t_s"] <= cell.duration_s] if rows else found


def _own(cell: Cell, one: Destination) -> dict[str, Any]:
    """The path of one of many destinations."""
    path = topology.shaped(cell.links[0], one)
    keys = ("rtt_ms", "rate_mbit", "loss_percent")
    return {"prefix": one.prefix, **{key: getattr(path, key) for key in keys}}


def _tables(cell: Cell, work: Path, new: Path) -> None:
    wanted = {flow.name: None if flow.cc == SYSTEM else flow.cc for flow in cell.flows}
    # "null" and "NA" are data here, not absence.
    flows = pd.read_csv(work / "flows.csv", keep_default_na=False, na_values={"": [""]})
    text = ["group", "cc_start", "cc_used", "error"]
    for column in text:
        flows[column] = flows[column].astype("object").where(flows[column] != "", None)
    for column in ("end_s", "fct_s", "standstill_s", *_TIMES):
        flows[column] = pd.to_numeric(flows[column])
    flows["side"] = "left"
    prefixes = {one.address: one.prefix for one in destinations(cell)}
    flows["prefix"] = flows["to"].map(prefixes).astype("Int64")
    flows["cc_wanted"] = flows["group"].map(wanted)
    # A rescue changes the algorithm later; the arm is the first choice.
    flows["arm"] = flows["cc_start"] if cell.tuner.name != "none" else None
    for column, kind in _FLOW_COLUMNS.items():
        if kind not in ("str", "Int64"):
            flows[column] = flows[column].astype(np.dtype(kind))
    flows[list(_FLOW_COLUMNS)].to_parquet(new / "flows.parquet", index=False)
    for name in ("samples", "queues"):
        table = pd.read_csv(work / f"{name}.csv")
        if name == "queues" and any(link.trace for link in cell.links):
            table = pd.concat([t for t in (table, _traced_queues(cell, work)) if len(t)])
        table.to_parquet(new / f"{name}.parquet", index=False)
    if (work / "probes.csv").exists():
        pd.read_csv(work / "probes.csv").to_parquet(new / "probes.parquet", index=False)
    if cell.measure.programs:
        programs = pd.read_csv(work / measures.PROGRAMS)
        programs.to_parquet(new / "programs.parquet", index=False)


def _tuner(cell: Cell, work: Path) -> dict[str, Any]:
    log = _maybe_text(work / "tuner.log") or ""
    status = _maybe_json(work / "tuner-status.json") or {}
    table: list[dict[str, Any]] = []
    paths = (_maybe_json(work / "tuner-paths.json") or {}).get("paths", [])
    paths.sort(key=lambda path: -path["connections"])
    connections: dict[str, int] = {}
    for path in paths:  # an address has one for each class of handshakes
        before = connections.get(path["prefix"], 0)
        connections[path["prefix"]] = before + path["connections"]
    if cell.tuner.name == "tcpilot":
        table = [
            {
                "key": path["prefix"],
                "arm": known.pop("name"),
                "count": known.pop("chosen"),
                "queued_losses": path.get("queued_losses"),
                **known,
            }
            for path in paths[:_TABLE_PATHS]
            for known in path["algorithms"]
        ]
    else:
        table = bpftune_table(log)
    return {
        "name": cell.tuner.name,
        "version": _maybe_text(work / "tuner-version"),
        "log": log.splitlines()[-_LOG_LINES:],
        "table": table,
        "connections": connections,
        "tunings": status.get("tunings"),
        "status": status,
        "report": _maybe_json(work / "tuner-report.json"),
    }


def _sysctls(path: Path) -> dict[str, str]:
    lines = (_maybe_text(path) or "").splitlines()
    pairs = (line.partition(" = ") for line in lines)
    return {key: " ".join(value.split()) for key, _, value in pairs if key}


_UNKNOWN = re.compile(r"\[Unknown qdisc, optlen=(\d+)\]")
"""Output of a tc older than the qdisc, for its options: no JSON."""


def _qdiscs(path: Path) -> list[dict[str, Any]]:
    """tc's JSON of each namespace, a row per qdisc of a device of ours."""
    found: list[dict[str, Any]] = []
    for part in (_maybe_text(path) or "").split("@@ ")[1:]:
        ns, _, raw = part.partition("\n")
        for qdisc in json.loads(_UNKNOWN.sub(r'"bytes": \1', raw)) if raw.strip() else []:
            if qdisc.get("dev") != "lo":
                found.append({"ns": ns, **qdisc})
    return found


def _commands(work: Path) -> dict[str, list[str]]:
    """The exact commands of tc, by namespace."""
    return {
        path.name.removeprefix("tc-"): path.read_text().splitlines()
        for path in sorted(work.glob("tc-*"))
    }


def _between(work: Path) -> float | None:
    times = [_maybe_text(work / name) for name in ("started", "ended")]
    if times[0] is None or times[1] is None:
        return None
    return round(float(times[1]) - float(times[0]), 2)


def _maybe_text(path: Path) -> str | None:
    return path.read_text(errors="replace").strip() if path.exists() else None


def _maybe_json(path: Path) -> Any:
    text = _maybe_text(path)
    return json.loads(text) if text else None


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
