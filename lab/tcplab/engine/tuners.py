"""Tuners of the sender's host: how the script starts them, waits until they act, and stops them."""

from __future__ import annotations

import re
from typing import Any

from tcplab.engine import limits
from tcplab.scenario.model import Tuner

_TCPILOT = """\
step tuner tcpilot
"$tcpilot" run --config tcpilot.toml --state /run/tcplab-state.db --socket /run/tcplab.sock \\
    ${cgroup:+--cgroup "$cgroup"} >tuner.log 2>&1 &
tuner=$!
until "$tcpilot" status --socket /run/tcplab.sock >/dev/null 2>&1; do
    kill -0 $tuner 2>/dev/null || fail "tcpilot: $(tail -n 1 tuner.log)"
    sleep 0.2
done"""

_TCPILOT_STOP = """\
"$tcpilot" paths --json --socket /run/tcplab.sock >tuner-paths.json 2>/dev/null
"$tcpilot" status --json --socket /run/tcplab.sock >tuner-status.json 2>/dev/null
"$tcpilot" report --json --socket /run/tcplab.sock >tuner-report.json 2>/dev/null
"$tcpilot" --version >tuner-version
kill -INT $tuner
wait $tuner"""

# It attaches and detaches while it looks for features of the kernel: it acts once it has
# stayed attached for 15 s.
_BPFTUNE = """\
step tuner bpftune
bpftune -d -s {options} >tuner.log 2>&1 &
tuner=$!
seen=0
until [ $seen -ge 15 ]; do
    kill -0 $tuner 2>/dev/null || fail "bpftune: $(tail -n 1 tuner.log)"
    sleep 1
    seen=$((seen + 1))
    bpftool cgroup show "${{cgroup:-/sys/fs/cgroup}}" | grep -q conn_tuner || seen=0
done"""

_BPFTUNE_STOP = """\
bpftune -V >tuner-version 2>&1
# With all of its tuners it does not always end when it is told to.
{ sleep 20; kill -KILL $tuner; } 2>/dev/null &
kill -INT $tuner
wait $tuner"""


def start(tuner: Tuner) -> list[str]:
    """Shell lines to start it; they return when it acts."""
    if tuner.name == "tcpilot":
        return [_TCPILOT]
    if tuner.name == "bpftune":
        return [_BPFTUNE.format(options=tuner.options)]
    return limits.start(tuner) if tuner.name == "limit" else []


def stop(tuner: Tuner) -> list[str]:
    """Shell lines to save its state, and stop it."""
    found = {"tcpilot": [_TCPILOT_STOP], "bpftune": [_BPFTUNE_STOP], "limit": limits.stop()}
    return found.get(tuner.name, [])


# As bpftune prints it: IPAddress CongAlg Metric Count Greedy MinRtt MaxRtDlvr
_ROW = re.compile(r"(?P<address>[0-9a-fA-F.:]+)\s+(?P<arm>[a-z]\w*)\s+(?P<numbers>\d+(\s+\d+){4})$")
_COLUMNS = ("cost", "count", "greedy", "min_rtt_us", "max_delivery_rate")


def bpftune_table(log: str) -> list[dict[str, Any]]:
    """The last table of bpftune's debug log: a row per key and algorithm."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for line in log.splitlines():
        found = _ROW.search(line.strip())
        if found:
            numbers = map(int, found["numbers"].split())
            key = (found["address"], found["arm"])
            rows[key] = {"key": key[0], "arm": key[1], **dict(zip(_COLUMNS, numbers, strict=True))}
    return list(rows.values())
