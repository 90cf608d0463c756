"""Result directories of invented data, in the shape of real runs.

Not measured, and titled so: traffic is a saw-tooth with seeded noise, shaped to give metrics known
answers.  For tests of readers of result directories, without a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RATE_MBIT = 20.0
BASE_RTT_MS = 40.0
SECONDS = 20.0
STEP_S = 0.1


def write_campaign(
    root: Path,
    name: str,
    axes: Mapping[str, Sequence[Any]],
    *,
    expect: Sequence[Mapping[str, Any]] = (),
    status: str = "complete",
    repetitions: int = 1,
    stamp: str = "20260101T000000Z",
) -> Path:
    """The folder with its manifest, without cells."""
    folder = root / f"{name}-{stamp}"
    (folder / "cells").mkdir(parents=True)
    toml = f'# invented data\ncampaign = "{name}"\n\n[link]\nrate_mbit = {RATE_MBIT}\n'
    manifest = {
        "format": 1,
        "campaign": name,
        "title": f"{name} (invented test data)",
        "command": ["tcplab", "run", name, "--quick", "--virtual-time"],
        "started": "2026-01-01T00:00:00Z",
        "finished": "2026-01-01T00:20:00Z" if status == "complete" else None,
        "status": status,
        "scenario": {"expect": [dict(e) for e in expect]},
        "scenario_toml": toml,
        "quick": True,
        "engine": "vm",
        "kernel_wanted": "6.1",
        "virtual_time": True,
        "seed": 7,
        "repetitions": repetitions,
        "axes": {a: list(v) for a, v in axes.items()},
        "scale": "20 Mbit/s instead of 100 Mbit/s",
        "commit": "0123456789",
        "dirty": False,
        "packages": {"tcplab": "0.1.0"},
        "host": {"kernel": "6.18.0", "cpu": "test", "cores": 2},
        "python": "3.11.2",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write_cell(
    campaign: Path,
    labels: Mapping[str, Any],
    repetition: int = 0,
    *,
    status: str = "ok",
    error: str | None = None,
    flows: pd.DataFrame | None = None,
    samples: pd.DataFrame | None = None,
    queues: pd.DataFrame | None = None,
    programs: pd.DataFrame | None = None,
    tuner: Mapping[str, Any] | None = None,
    groups: Mapping[str, float] | None = None,
    scenario: Mapping[str, Any] | None = None,
) -> Path:
    """One cell with the tables given; `groups` maps each flow group to its base RTT in ms."""
    cell = campaign / "cells" / ("-".join(str(v) for v in labels.values()) + f"-r{repetition}")
    cell.mkdir()
    tables = {"flows": flows, "samples": samples, "queues": queues, "programs": programs}
    for table, frame in tables.items():
        if frame is not None:
            frame.to_parquet(cell / f"{table}.parquet")
    if tuner is not None:
        (cell / "tuner.json").write_text(json.dumps(tuner))
    good = status != "rejected"
    measured = RATE_MBIT if good else 0.6 * RATE_MBIT
    base = groups or {"first": BASE_RTT_MS, "second": BASE_RTT_MS}
    record = {
        "id": cell.name,
        "labels": dict(labels),
        "repetition": repetition,
        "seed": 7 + repetition,
        "order": 0,
        "status": status,
        "error": error,
        "calibration": {
            "idle_rtt_ms": {"expected": BASE_RTT_MS, "measured": BASE_RTT_MS + 0.1, "ok": True},
            "udp_rate_mbit": {"expected": RATE_MBIT, "measured": measured, "ok": good},
            "loss": {"expected": 0.0, "measured": 0.0, "ok": True},
            "timer_late_ms_p99": {"expected": 1.0, "measured": 0.2, "ok": True},
        },
        "kernel": "6.1.0-test-amd64",
        "sysctls": {"net.ipv4.tcp_ecn": "2"},
        "qdisc_state": [],
        "modules": ["tcp_bbr"],
        "engine": "vm",
        "virtual_time": True,
        "wall_s": 31.5,
        "virtual_s": SECONDS,
        "scenario": scenario or {},
        "ideal": {
            "duration_s": SECONDS,
            "links": {"bottleneck": {"rate_mbit": RATE_MBIT}},
            "groups": {
                g: {"base_rtt_ms": rtt, "links": ["bottleneck"], "count": 1}
                for g, rtt in base.items()
            },
        },
    }
    (cell / "cell.json").write_text(json.dumps(record))
    return cell


def flow_row(flow: int, group: str, cc: str, **changes: Any) -> dict[str, Any]:
    """A row of flows.parquet: a connection over the whole run without data."""
    return {
        "flow": flow,
        "group": group,
        "side": "left",
        "cc_wanted": cc,
        "cc_used": cc,
        "start_s": 0.0,
        "end_s": SECONDS,
        "bytes": 0,
        "fct_s": None,
        "retransmitted_packets": 0,
        "sent_packets": 0,
        "ecn": False,
        "error": None,
        "arm": None,
        "warmup": False,
        "to": "10.1.10.2",
        "prefix": None,
        **changes,
    }


def saw_tooth(
    rates_mbit: Mapping[int, float], cc: Mapping[int, str], seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Samples and queue of flows with these average rates, and saw-teeth on top."""
    rng = np.random.default_rng(seed)
    t = np.arange(0, SECONDS + STEP_S / 2, STEP_S)
    frames, backlog = [], np.zeros_like(t)
    for flow, mbit in rates_mbit.items():
        tooth = 0.75 + 0.5 * ((t / (2 + flow) + rng.random()) % 1)
        cwnd = np.maximum(mbit * 1e6 / 8 * BASE_RTT_MS / 1e3 / 1448 * tooth, 2)
        noise = 1 + 0.05 * rng.standard_normal(t.size)
        rate = mbit * 1e6 / 8 * tooth * noise
        acked = np.concatenate([[0], np.cumsum(rate[1:] * STEP_S)])
        acked *= mbit * 1e6 / 8 * SECONDS / acked[-1]
        backlog += np.maximum(tooth - 0.9, 0) * 60_000
        frames.append(
            pd.DataFrame(
                {
                    "t_s": t,
                    "flow": flow,
                    "cwnd_packets": cwnd.round(),
                    "ssthresh_packets": (cwnd * 0.7).round(),
                    "srtt_us": (BASE_RTT_MS * 1e3 + backlog * 8 / RATE_MBIT).round(),
                    "min_rtt_us": BASE_RTT_MS * 1e3,
                    "delivery_rate": rate,
                    "pacing_rate": rate * 1.2,
                    "bytes_acked": acked,
                    "retransmitted_packets": np.floor(t / 3),
                    "lost_packets": 0,
                    "inflight_packets": cwnd.round(),
                    "cc": cc[flow],
                }
            )
        )
    total = sum(rates_mbit.values()) * 1e6 / 8
    queues = pd.DataFrame(
        {
            "t_s": t,
            "link": "bottleneck",
            "qdisc": "pfifo",
            "backlog_bytes": backlog.round(),
            "backlog_packets": (backlog / 1514).round(),
            "drops": np.floor(t / 3),
            "marks": 0,
            "sent_bytes": t * total * 1514 / 1448,
            "sent_packets": t * total / 1448,
        }
    )
    return pd.concat(frames, ignore_index=True), queues


def write_pair(
    campaign: Path, labels: Mapping[str, Any], share: float, repetition: int = 0, **options: Any
) -> Path:
    """Two flows named by the labels `first` and `second`; the first gets `share` of the link."""
    usable = RATE_MBIT * 1448 / 1514
    ccs = {0: str(labels["first"]), 1: str(labels["second"])}
    rates = {0: usable * share, 1: usable * (1 - share)}
    if ccs[1] == "none":
        ccs, rates = {0: ccs[0]}, {0: usable}
    samples, queues = saw_tooth(rates, ccs, repetition)
    names = ("first", "second")
    flows = pd.DataFrame(
        [
            flow_row(
                i,
                names[i],
                cc,
                bytes=round(rates[i] * 1e6 / 8 * SECONDS),
                sent_packets=10_000,
                retransmitted_packets=50 * (i + 1),
            )
            for i, cc in ccs.items()
        ]
    )
    return write_cell(
        campaign, labels, repetition, flows=flows, samples=samples, queues=queues, **options
    )


def write_tuned(
    campaign: Path, labels: Mapping[str, Any], rates: Mapping[str, float], chosen: Sequence[str]
) -> Path:
    """A cell of connections one after the other: `chosen` names the arm of each, `rates` its
    goodput in Mbit/s.  A variant that is not an arm is a tuner."""
    variant = str(labels["variant"])
    rows = [
        flow_row(
            i,
            "load",
            arm,
            start_s=float(i),
            end_s=i + 1.0,
            bytes=round(rates[arm] * 125_000),
            arm=arm,
        )
        for i, arm in enumerate(chosen)
    ]
    tuner = None
    if variant not in rates:
        table = [
            {
                "key": "192.168.168.1",
                "arm": arm,
                "cost": round(1e6 * (1 - rates[arm] / max(rates.values()))),
                "count": list(chosen).count(arm),
                "greedy": max(list(chosen).count(arm) - 1, 0),
                "min_rtt_us": 3 + i,
                "max_delivery_rate": round(rates[arm] * 125_000),
            }
            for i, arm in enumerate(rates)
        ]
        tuner = {"name": variant, "version": "0.1.0", "log": "", "table": table}
    return write_cell(
        campaign, labels, flows=pd.DataFrame(rows), tuner=tuner, groups={"load": BASE_RTT_MS}
    )
