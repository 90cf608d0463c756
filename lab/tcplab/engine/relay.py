"""pathrelay under engine `here`: whether it is needed, how much it carries, how late it was."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tcplab import topology
from tcplab.engine.errors import EngineError
from tcplab.scenario.destinations import destinations
from tcplab.scenario.model import PACKET_BYTES, Cell, Link

USABLE = 0.8
"""The largest usable share of its saturation rate."""
_SECONDS = 2
# How late packets may be, whichever is longest: so many microseconds, a share of the round trip,
# and a share of a packet's time on the fastest link, since nothing happens in shorter steps there.
_LATE_MOST_US = 200.0
_LATE_MOST_SHARE = 0.01
_LATE_MOST_SLOT = 0.5

# Both ends send as many segments a packet as a cell's do: one, or if the receiver joins packets, as
# many as they like.
_SATURATE = """
set -u
ip netns add near && ip netns add far || exit 1
"$1" --link near=near/t0,far=far/t0,delay_ms=1 >out 2>err &
relay=$!
tries=0
until grep -q ready out; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] && kill -0 $relay 2>/dev/null || { cat err >&2; exit 1; }
    sleep 0.05
done
for end in near far; do
    ip -n $end link set t0 gso_max_segs "$4" && ip -n $end link set t0 up || exit 1
done
ip -n near address add 10.255.0.1/24 dev t0
ip -n far address add 10.255.0.2/24 dev t0
ip netns exec far "$2" serve --listen 10.255.0.2:5201 >served &
until grep -q listening served; do sleep 0.05; done
ip netns exec near "$2" bulk --to 10.255.0.2:5201 --seconds "$3" --cc cubic >report
"""


def program(flowgen: str) -> Path:
    """Next to flowgen."""
    return Path(flowgen).with_name("pathrelay")


_NETEM_SEGMENTS, _SEGMENT_BYTES = 1000, 65_536
_MOST_SEGMENTS = 45
"""Of 1448 bytes, in a packet of 64 KB."""


@cache
def saturation_mbit(flowgen: str, segments: int = 1) -> float:
    """Goodput of one connection over an idle relay with 1 ms of delay and up to `segments` a
    packet.  It does not use the host's default algorithm: with paced single packets the
    host's timer would limit it."""
    with tempfile.TemporaryDirectory() as folder:
        inner = "mount -t tmpfs tmpfs /run && ip link set lo up && cd " + shlex.quote(folder)
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += ["sh", "-c", f"{inner} && {_SATURATE}", "sh"]
        words += [str(program(flowgen)), str(Path(flowgen).resolve()), str(_SECONDS)]
        words.append(str(segments))
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            # Not even the message could be written.
            last = (said or [f"no message; is {tempfile.gettempdir()} full?"])[-1]
            raise EngineError(f"pathrelay cannot be measured: {last}")
        report = json.loads(Path(folder, "report").read_text())
    return float(report["goodput_bits_per_s"]) / 1e6


def refused(cells: list[Cell], flowgen: str) -> list[str]:
    """A sentence for each reason for which these cells cannot be relayed here."""
    obstacles = sorted({what for cell in cells if (what := topology.relay_obstacle(cell))})
    if obstacles:
        return [f"qdisc netem, which {', '.join(obstacles)} needs"]
    if not program(flowgen).exists():
        return [f"qdisc netem, and {program(flowgen)} in its place (cargo build --release)"]
    links = [link for cell in cells for link in _ever(cell)]
    kinds = (
        ("", 1, [link for link in links if not link.receiver_gro_us]),
        (" of joined packets", _MOST_SEGMENTS, [link for link in links if link.receiver_gro_us]),
    )
    found = (_too_fast(what, segments, alike, flowgen) for what, segments, alike in kinds if alike)
    return [told for told in found if told]


def _too_fast(what: str, segments: int, links: list[Link], flowgen: str) -> str | None:
    carried = saturation_mbit(flowgen, segments)
    fastest = max(link.rate_mbit or 0.0 for link in links)
    if fastest <= USABLE * carried:
        return None
    return (
        f"speed: without netem a relay delays, which carries {carried:.0f} Mbit/s{what} here; "
        f"cells may ask for {USABLE:.0%} of it, and one asks for {fastest:g}"
    )


def verdict(cell: Cell, reports: list[dict[str, Any]]) -> dict[str, Any]:
    """How late packets were over all branches, and whether its memory sufficed."""
    ways = [report[way] for report in reports for way in ("there", "back")]
    least_us = 1000 * min(_rtts_ms(cell))
    slot_us = PACKET_BYTES * 8 / max(_rates_mbit(cell))
    most_us = max(_LATE_MOST_US, _LATE_MOST_SHARE * least_us, _LATE_MOST_SLOT * slot_us)
    late_us = max(way["late_us"]["p99"] for way in ways)
    full = sum(way["full"] for way in ways)
    return {
        "relay_late_us_p99": {"expected": 0.0, "measured": late_us, "ok": late_us <= most_us},
        "relay_full": {"expected": 0.0, "measured": full, "ok": full == 0},
    }


def _rtts_ms(cell: Cell) -> list[float]:
    """Every possible delay of a packet, also to many destinations."""
    many = destinations(cell)
    own_ms = [topology.shaped(cell.links[0], one).rtt_ms for one in many]
    first_ms = topology.rtts_ms(cell)[0]
    return own_ms or [link.rtt_ms + first_ms for link in _ever(cell)]


def _rates_mbit(cell: Cell) -> list[float]:
    """Every possible rate."""
    many = destinations(cell)
    own = [topology.shaped(cell.links[0], one).rate_mbit for one in many]
    return [rate or math.inf for rate in own or [link.rate_mbit for link in _ever(cell)]]


def memory_mb(cell: Cell) -> int:
    """Memory for packets under way in one direction: twice the need of a full link."""
    if not topology.is_relayed(cell):
        return 16  # only queues before traces
    need = (_under_way(link, max(topology.rtts_ms(cell))) for link in _ever(cell))
    return max(16, round(2 * max(need) / 1e6 + PACKET_BYTES / 1e3))


def _under_way(link: Link, extra_ms: float) -> float:
    """Bytes of a full link; of a direct path, netem's default limit of 1000 segments."""
    if topology.is_direct(link):
        return _NETEM_SEGMENTS * _SEGMENT_BYTES
    return (link.rate_mbit or 40_000) * 125 * (link.rtt_ms + extra_ms)


def _ever(cell: Cell) -> list[Link]:
    """The links as they are at first, and after each change."""
    changed = (topology.links_over_time(cell, i) for i in range(len(cell.links)))
    return [*cell.links, *(link for found in changed for _, link in found)]
