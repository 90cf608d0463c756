"""One JSON line for each cell: its origin, and the figures of each of its flows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from tcplab.results.read import Cell, ResultsError, read_campaign
from tcplab.studies.l4s import packets

Record = dict[str, Any]
_FROM_S = 8.0
"""Slow start, and what it left in the queue, are over by then."""
_QUICK_FROM_S = 4.0
_L4S = ("ECT(1)", "CE")


def of_campaign(folder: Path) -> dict[str, Record]:
    """The good cells of a campaign, by name.

    Raises ResultsError for records that nobody could make again: of files that differed from their
    commit.
    """
    campaign = read_campaign(folder)
    manifest = campaign.manifest
    if manifest["dirty"] or not manifest["commit"]:
        raise ResultsError(f"{folder}: of files that are in no commit")
    quick = bool(manifest["quick"])
    found: dict[str, Record] = {}
    for cell in campaign.cells():
        if cell.status == "ok":
            name = "-".join(map(str, cell.labels.values())) + f".{cell.repetition}"
            name += "-quick" if quick else ""
            found[name] = {
                "cell": name,  # without a number, which depends on the part that ran
                "command": f"tcplab run l4s --kernel 7.2{' --quick' if quick else ''}",
                "quick": quick,
                "commit": manifest["commit"],
                "kernel": cell.kernel,
                "virtual_time": manifest["virtual_time"],
                "seed": manifest["seed"],
                "repetition": cell.repetition,
                "labels": cell.labels,
                **of_cell(cell, _QUICK_FROM_S if quick else _FROM_S),
            }
    return found


def of_cell(cell: Cell, from_s: float = _FROM_S) -> Record:
    """Figures of the time from `from_s` to the end: the link's utilisation, and for each flow its
    rate on the wire, its share of all, queue delay, marks, and queue; and of the whole run, packets
    retransmitted of those sent."""
    duration_s = float(cell.ideal.duration_s or 0)
    rate_mbit = next(iter(cell.ideal.rates_mbit.values()))
    came = packets.delays(
        packets.read(cell.folder / "left.pcap"), packets.read(cell.folder / "right.pcap")
    )
    start_s = float(came["t_s"].min())
    late = came[(came["t_s"] >= start_s + from_s) & (came["t_s"] < start_s + duration_s)]
    seconds = duration_s - from_s
    flows = pd.read_parquet(cell.folder / "flows.parquet")
    rates = late.groupby("port")["bytes"].sum() * 8e-6 / seconds
    return {
        "from_s": from_s,
        "seconds": seconds,
        "utilisation": _rounded(float(rates.sum()) / rate_mbit),
        "flows": {
            str(row.group): _of_flow(row, late[late["port"] == row.local_port], rates)
            for row in flows.itertuples()
        },
    }


def _of_flow(row: Any, came: pd.DataFrame, rates: pd.Series[float]) -> Record:
    rate = float(rates.get(row.local_port, 0.0))
    codepoints = came["ecn"].map(lambda bits: packets.CODEPOINTS[bits])
    sent = float(row.sent_packets)
    return {
        "cc": str(row.cc_used),
        "queue": "L" if codepoints.isin(_L4S).mean() > 0.5 else "C",
        "packets": len(came),
        "wire_mbit": _rounded(rate),
        "share": _rounded(rate / float(rates.sum())) if len(rates) else None,
        "retransmit_ratio": _rounded(float(row.retransmitted_packets) / sent) if sent else None,
        "mark_ratio": _rounded(float((codepoints == "CE").mean())) if len(came) else None,
        "queued_ms_p50": _rounded(packets.percentile(came["queued_ms"], 50)),
        "queued_ms_p99": _rounded(packets.percentile(came["queued_ms"], 99)),
    }


def _rounded(value: float | None) -> float | None:
    """Six significant digits."""
    return None if value is None else float(f"{value:.6g}")


def load(path: Path) -> dict[str, Record]:
    """Those that were published; none if nothing was."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {found["cell"]: found for found in map(json.loads, lines)}


def save(path: Path, found: dict[str, Record]) -> None:
    """Replaces the file at once."""
    lines = [json.dumps(found[key], separators=(",", ":")) for key in sorted(found)]
    temporary = path.with_suffix(".new")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    temporary.replace(path)
