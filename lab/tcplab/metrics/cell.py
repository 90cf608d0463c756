"""All metrics of one cell: a pure function of its directory."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from tcplab.metrics import delays, phases, programs, rates, utility
from tcplab.metrics.fairness import jain
from tcplab.results.read import Cell, Ideal, read_cell

Values = dict[str, float | None]


def write_cell(folder: Path) -> dict[str, Any]:
    """Computes the metrics of a cell's directory and stores them as metrics.json in it."""
    found = cell_metrics(read_cell(folder))
    temporary = folder / "metrics.json.new"
    temporary.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(folder / "metrics.json")
    return found


def cell_metrics(cell: Cell) -> dict[str, Any]:
    """`values` by name, `groups` by flow group, and the report's lines.

    Names, units and sources: `tcplab.catalogue`.  An unknown value is None.
    """
    everything = cell.flows()
    flows = everything[~everything["warmup"].fillna(False).astype(bool)]
    samples = cell.samples()
    samples = samples[samples["flow"].isin(flows["flow"])]
    queues, counted = cell.queues(), cell.programs()
    per_second = rates.bytes_per_second(samples, flows)
    jains = rates.jain_per_second(per_second)
    done = delays.slowdowns(flows, cell.ideal)
    values: Values = {
        **_of_flows(flows, samples),
        **utility.of_flows(everything, flows),
        "learned_goodput_mbit": _learned(
            flows, skip_a_third=len(flows) == len(everything) and cell.tuner() is not None
        ),
        **_of_company(flows, per_second, jains, cell.ideal),
        **_of_queue(queues, cell.ideal),
        **_cost_of(cell.acks()),
        **_processor_of(cell.raw.get("processor_s"), flows),
        **programs.of_flows(counted, flows),
        **delays.percentiles("fct_ms", done["fct_ms"]),
        **delays.percentiles("fct_slowdown", done["slowdown"]),
    }
    groups = {
        str(name): _finite(
            _of_flows(rows, samples[samples["flow"].isin(rows["flow"])])
            | programs.of_flows(counted, rows)
        )
        for name, rows in flows.groupby("group")
    }
    groups |= {
        str(name): _finite(_of_link(rows, flows, cell.ideal.rates_mbit.get(str(name))))
        for name, rows in samples.groupby("link")  # of multipath connections only
    }
    parts = phases.of_phases(samples, flows, cell.ideal.phases_s)
    groups |= {name: _finite(values) for name, values in parts.items()}
    for name, rows in cell.probes().groupby("probe"):
        groups[str(name)] = _finite(delays.of_datagrams(rows))
    return {
        "format": 1,
        "values": _finite(values),
        "groups": groups,
        "destinations": utility.of_destinations(everything, cell.ideal.destinations),
        "fct_by_size": [_finite_row(row) for row in delays.by_size(done)],
        "fct_ms_quantiles": delays.quantiles(done["fct_ms"]),
        "jain_series": [[float(str(t)), round(float(v), 4)] for t, v in jains.items()],
        "algorithms": _counts(flows["cc_used"]),
        "arms": _counts(everything["arm"]),
    }


def _of_flows(flows: pd.DataFrame, samples: pd.DataFrame) -> Values:
    """Metrics for one flow group or all flows."""
    each = rates.flow_goodputs_mbit(flows)
    rtt = delays.rtt_ms(samples)
    cwnd = pd.to_numeric(samples["cwnd_packets"]).dropna()
    errors = int(flows["error"].notna().sum())
    goodput = rates.goodput_mbit(flows)
    span = float(flows["end_s"].max() - flows["start_s"].min()) if len(flows) else 0.0
    return {
        "goodput_mbit": goodput,
        "flow_goodput_mbit": float(each.mean()) if len(each) else None,
        "retransmit_ratio": rates.ratio_of_sums(
            flows["retransmitted_packets"], flows["sent_packets"]
        ),
        "cwnd_packets": float(cwnd.mean()) if len(cwnd) else None,
        "rtt_ms_mean": float(rtt.mean()) if len(rtt) else None,
        **delays.percentiles("rtt_ms", rtt),
        "standstill_s": _most(flows["standstill_s"]),
        "connections_per_s": (len(flows) - errors) / span if span > 0 and len(flows) > 2 else None,
        "failed_connections": float(errors),
    }


def _cost_of(acks: dict[str, dict[str, int]]) -> Values:
    """The mean over all acknowledgements, whichever algorithm took them, if it was measured."""
    count = sum(one["acks"] for one in acks.values())
    return {"ack_ns": sum(one["ns"] for one in acks.values()) / count} if count else {}


def _processor_of(spent_s: dict[str, float] | None, flows: pd.DataFrame) -> Values:
    """The processors' time over the arrived data, if measured."""
    gbit = float(flows["bytes"].sum()) * 8e-9
    if not spent_s or not gbit:
        return {}
    busy_s = sum(spent_s[state] for state in ("user", "nice", "system", "irq", "softirq"))
    return {"processor_s_per_gbit": busy_s / gbit}


def _most(values: pd.Series[Any]) -> float | None:
    known = pd.to_numeric(values).dropna()
    return float(known.max()) if len(known) else None


def _of_link(samples: pd.DataFrame, flows: pd.DataFrame, rate_mbit: float | None) -> Values:
    """The subflows of multipath connections on one link."""
    carried = samples.groupby("flow")["bytes_acked"].max().sum()
    seconds = float(flows["end_s"].max() - flows["start_s"].min())
    rtt = delays.rtt_ms(samples)
    goodput = float(carried) * 8e-6 / seconds if seconds > 0 else None
    return {
        "goodput_mbit": goodput,
        "link_share": goodput / rate_mbit if goodput is not None and rate_mbit else None,
        "cwnd_packets": float(samples["cwnd_packets"].mean()),
        **delays.percentiles("rtt_ms", rtt),
    }


def _of_company(
    flows: pd.DataFrame, per_second: pd.DataFrame, jains: pd.Series[float], ideal: Ideal
) -> Values:
    """Metrics of simultaneous connections."""
    if not _together(flows):
        return dict.fromkeys(("jain", "jain_per_second", "max_min_share", "convergence_s"))
    return {
        "jain": jain(rates.flow_goodputs_mbit(flows).tolist()) if len(flows) > 1 else None,
        "jain_per_second": float(jains.median()) if len(jains) else None,
        "max_min_share": rates.least_max_min_share(flows, ideal),
        "convergence_s": rates.convergence_s(per_second, flows),
    }


def _learned(flows: pd.DataFrame, skip_a_third: bool) -> float | None:
    """Mean goodput of timed connections one after the other, learning left out."""
    if not _in_turn(flows) or flows["fct_s"].notna().any():
        return None
    each = rates.flow_goodputs_mbit(flows).tolist()
    counted = rates.learned(each) if skip_a_third else each
    return sum(counted) / len(counted)


def _in_turn(flows: pd.DataFrame) -> bool:
    """Whether the connections followed one another, as a learner's do; a tenth of a second of
    overlap is the closing of the one before."""
    ordered = flows.sort_values("start_s")
    starts, ends = ordered["start_s"].to_numpy(float), ordered["end_s"].to_numpy(float)
    return len(ordered) > 2 and bool((starts[1:] >= ends[:-1] - 0.1).all())


def _together(flows: pd.DataFrame) -> bool:
    """Whether all connections are alive at some moment."""
    return len(flows) > 0 and float(flows["start_s"].max()) < float(flows["end_s"].min())


def _of_queue(queues: pd.DataFrame, ideal: Ideal) -> Values:
    link = ideal.bottleneck
    rate = ideal.rates_mbit.get(link) if link else None
    rows = queues[queues["link"] == link]
    marks = sent = None
    if len(rows) > 1:
        marks = _rise(rows["marks"])
        sent = _rise(rows["sent_packets"])
    return {
        "utilisation": rates.utilisation(queues, link, rate),
        **delays.percentiles("queue_delay_ms", delays.queue_delay_ms(queues, link, rate)),
        "mark_ratio": marks / sent if marks is not None and sent else None,
    }


def _rise(counter: pd.Series[Any]) -> float:
    """From the first to the last sample; 0 for a counter missing in the qdisc."""
    known = pd.to_numeric(counter).fillna(0)
    return float(known.iloc[-1] - known.iloc[0])


def _counts(names: pd.Series[Any]) -> dict[str, int]:
    return {str(k): v for k, v in Counter(n for n in names if n and not pd.isna(n)).most_common()}


def _finite(values: Values) -> Values:
    """JSON has no NaN; it becomes None."""
    return {
        k: None if v is None or not math.isfinite(v) else float(f"{v:.6g}")
        for k, v in values.items()
    }


def _finite_row(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
