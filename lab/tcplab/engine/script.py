"""The shell script of a cell, run by both engines as root in a place of its own.

It builds the path, calibrates it, recreates its queues, starts the tuner, lets flowgen play the
plan, and leaves everything in the cell's folder.  Programs are started, and files read, before the
measured time.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from tcplab import topology
from tcplab.algorithms import PREFIX
from tcplab.engine import acks, calibration, held, measures, need, relay, tuners, watcher, web
from tcplab.scenario import traces
from tcplab.scenario.model import Cell
from tcplab.traffic.plan import PORT, plan

SCRIPT = "cell.sh"
SYSCTLS = (
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.core.default_qdisc",
)
"""Recorded with every cell, as the sender has them."""


@dataclass(frozen=True)
class Programs:
    """Programs and the cell's folder, as the script sees them."""

    flowgen: Path
    tcpilot: Path
    folder: Path


def files(cell: Cell, seed: int, programs: Programs) -> dict[str, str]:
    """The script and its input files in a cell's folder, by name."""
    found = {"plan.json": json.dumps(plan(cell, seed), indent=1)}
    for name, lines in topology.ip_lines(cell).items():
        found[f"ip-{name or 'outer'}"] = _lines(lines)
    for name, lines in topology.mptcp_lines(cell).items():
        found[f"mptcp-{name}"] = _lines([f"mptcp {line}" for line in lines])
    for name, lines in topology.tc_lines(cell).items():
        found[f"tc-{name}"] = _lines(lines)
    for i, link in enumerate(cell.links):
        if link.trace:
            found[topology.trace_file(i)] = traces.text(link.trace)
    if topology.is_relayed(cell):
        found[topology.DESTINATIONS] = _lines(topology.relay_destinations(cell))
    if cell.tuner.name == "tcpilot":
        found["tcpilot.toml"] = cell.tuner.text()
    found |= web.files(cell)
    found[SCRIPT] = text(cell, programs, seed)
    return found


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def text(cell: Cell, programs: Programs, seed: int = 0) -> str:
    """The script."""
    # Traces and changes begin with the measured time.
    beside = ' --signal "$relay"' if topology.follows_time(cell) else ""
    beside += measures.sampled_programs(cell)
    parts = [
        _LIBRARY,
        f"cd {shlex.quote(str(programs.folder))} || fail 'the folder is not there'",
        f"flowgen={shlex.quote(str(programs.flowgen))}",
        f"tcpilot={shlex.quote(str(programs.tcpilot))}",
        f"third={shlex.quote('r3' if 'r3' in topology.namespaces(cell) else '')}",
        *_network(cell, programs, seed),
        *_receiver(cell),
        *_apart(cell),
        *_own_algorithms(cell, programs.tcpilot.parent),
        *_reflector(cell),
        *_calibrate(cell),
        *_queues_anew(cell),
        *web.start(cell, seed),
        *tuners.start(cell.tuner),
        *measures.start(cell),
        *watcher.start(cell),
        *acks.start(cell),
        *_captures(cell),
        'step traffic "flowgen play"',
        "qdisc_state >qdisc-before",
        "uptime_now >started",
        *measures.processor(cell, "before"),
        f'in_ns left {_beside_relay(cell)}"$flowgen" play plan.json --out .{beside} >play.json '
        "2>play.err ||",
        '    fail "flowgen: $(tail -n 1 play.err)"',
        *measures.processor(cell, "after"),
        "uptime_now >ended",
        "qdisc_state >qdisc-after",
        *acks.stop(cell),
        *watcher.stop(cell),
        *_captures_end(cell),
        *measures.stop(cell),
        *tuners.stop(cell.tuner),
        *_relay_ends(cell),
        "uname -r >release",
        "step done",
    ]
    return "\n".join(parts) + "\n"


def _network(cell: Cell, programs: Programs, seed: int) -> list[str]:
    found = topology.namespaces(cell)
    names = " ".join(found)
    lines = ['step network "the namespaces"', f"for ns in {names}; do", *_NAMESPACE, "done"]
    if 6 in topology.versions(cell):
        lines[-1:] = [_VERSION_6, "done"]
    lines += ["batch ip-outer ip -batch ip-outer", *_relay(cell, programs, seed)]
    lines += [f"batch ip-{n} ip -n {n} -batch ip-{n}" for n in found]
    lines += [f"batch mptcp-{n} ip -n {n} -batch mptcp-{n}" for n in topology.mptcp_lines(cell)]
    lines += _tc_lines(cell)
    settings = {"net.ipv4.tcp_no_metrics_save": "1", **cell.sysctl, "net.ipv4.tcp_ecn": cell.ecn}
    for key, value in settings.items():
        for end in ("left", "right"):
            words, failed = shlex.quote(f"{key}={value}"), shlex.quote(f"sysctl {key}")
            lines.append(f"in_ns {end} sysctl -qw {words} || fail {failed}")
    default = cell.sysctl.get(_DEFAULT_CC)
    if default and cell.tuner.name != "none":
        # A tuner runs outside the sender's namespace, and its host's default must be the sender's.
        words = shlex.quote(f"{_DEFAULT_CC}={default}")
        lines.append(f"sysctl -qw {words} || fail 'sysctl {_DEFAULT_CC}'")
    lines.append(f"in_ns left sysctl {' '.join(SYSCTLS)} >sysctls 2>/dev/null")
    return lines


def _relay(cell: Cell, programs: Programs, seed: int) -> list[str]:
    """Its devices must be there before they get addresses."""
    if not topology.has_relay(cell):
        return []
    words = [str(relay.program(str(programs.flowgen))), f"--memory-mb={relay.memory_mb(cell)}"]
    if cell.relay_processor is not None:
        words.append(f"--processor={cell.relay_processor}")
    words += [f"--link={link}" for link in topology.relay_links(cell, seed)]
    return [
        'step relay "pathrelay"',
        f"{shlex.join(words)} >relay.out 2>relay.err &",
        "relay=$!",
        "await relay.out ready relay.err",
    ]


def _captures(cell: Cell) -> list[str]:
    """A capture at each requested end, of its device on the first link."""
    devices = {"left": "l0", "right": topology.receiver_device(0, 0)}
    lines = []
    for end in cell.capture.ends():
        words = f"capture {devices[end]} --out {end}.pcap --snap-bytes {cell.capture.snap_bytes}"
        lines += [
            'step capture "flowgen capture"',
            # ip becomes the program, so $! is its number.
            f'ip netns exec {end} "$flowgen" {words} >capture-{end}.out 2>capture-{end}.err &',
            f"capture_{end}=$!",
            f"await capture-{end}.out capturing capture-{end}.err",
        ]
    return lines


def _captures_end(cell: Cell) -> list[str]:
    return [
        line
        for end in cell.capture.ends()
        for line in (
            f"kill $capture_{end}",
            f'wait $capture_{end} || fail "capture: $(tail -n 1 capture-{end}.err)"',
        )
    ]


def _relay_ends(cell: Cell) -> list[str]:
    if not topology.has_relay(cell):
        return []
    return ["kill $relay", "wait $relay || fail 'pathrelay failed'", "sed 1d relay.out >relay.json"]


def _tc_lines(cell: Cell) -> list[str]:
    used = [name for name, lines in topology.tc_lines(cell).items() if lines]
    return [f"batch tc-{name} tc -n {name} -batch tc-{name}" for name in used]


def _receiver(cell: Cell) -> list[str]:
    """Devices that join packets: GRO holds packets until the time is over."""
    lines = []
    for link, (before, peer), (behind, device) in topology.joins(cell):
        timeout = f"/sys/class/net/{device}/gro_flush_timeout"
        write = f"echo {1000 * link.receiver_gro_us} >{timeout}"
        said = '2>offload.err || fail "$(tail -n 1 offload.err)"'
        lines += [
            # Else the veth pair bypasses the place where packets are joined.
            f'in_ns {before} "$flowgen" offload {peer} --tso off {said}',
            f'in_ns {behind} "$flowgen" offload {device} --gro on {said}',
            f"in_ns {behind} sh -c '{write}' || fail 'no {timeout}'",
        ]
    return lines


def _apart(cell: Cell) -> list[str]:
    """Keeps the bottlenecks off the processor of the relay and of the ends' programs.  A fast
    bottleneck's timer takes all of a processor's time, and goes before programs: a sender on that
    processor writes only when the queue is empty, and never fills it."""
    if cell.relay_processor is None:
        return []
    others = sum(1 << i for i in os.sched_getaffinity(0) - {cell.relay_processor})
    lines = []
    for i in (i for i, link in enumerate(cell.links) if not topology.is_direct(link)):
        file = f"/sys/class/net/m{i}/queues/rx-0/rps_cpus"
        lines.append(f"in_ns r1 sh -c 'echo {others:x} >{file}' || fail 'no {file}'")
    return lines


def _beside_relay(cell: Cell) -> str:
    """The word before a program of the ends."""
    return "" if cell.relay_processor is None else f"taskset -c {cell.relay_processor} "


def _own_algorithms(cell: Cell, binaries: Path) -> list[str]:
    """Registers tcpilot's own, and a researcher's, for as long as the script runs, unless the
    campaign holds them."""
    names = need.ours(cell)
    if not names:
        return []
    wanted = shlex.join(held.objects(names, binaries))
    ours = " ".join(f"{PREFIX}{name}" for name in names)
    return [
        'step algorithms "tcpilot cc load"',
        f'are_available {ours} || "$tcpilot" cc load --foreground {wanted} >cc.out 2>cc.err &',
        *(f"await {held.AVAILABLE} {PREFIX}{name} cc.err" for name in names),
    ]


def _reflector(cell: Cell) -> list[str]:
    any_address = topology.with_port("::" if 6 in topology.versions(cell) else "0.0.0.0", PORT + 1)
    return [
        'step calibration "flowgen reflect"',
        f'in_ns right "$flowgen" reflect --listen {any_address} >reflect.out 2>reflect.err &',
        "reflector=$!",
        "await reflect.out listening reflect.err",
    ]


def _calibrate(cell: Cell) -> list[str]:
    lines: list[str] = []
    for i, target in enumerate(calibration.targets(cell)):
        words = calibration.arguments(target)
        lines += [
            f'in_ns left "$flowgen" {shlex.join(words)} >calibrate-{i}.json 2>calibrate.err ||',
            '    fail "calibration: $(tail -n 1 calibrate.err)"',
        ]
    return [*lines, "kill $reflector"]


def _queues_anew(cell: Cell) -> list[str]:
    """Fresh queues: counters from zero, no memory of the calibration."""
    lines = [
        f"tc -n {namespace} qdisc del dev {device} {what}"
        for namespace, device, what in topology.removed(cell)
    ]
    return [*lines, *_tc_lines(cell)]


_DEFAULT_CC = "net.ipv4.tcp_congestion_control"
_NAMESPACE = (
    '    ip netns add "$ns" || fail "cannot make the namespace $ns"',
    '    in_ns "$ns" sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 '
    "net.ipv4.conf.default.rp_filter=0",
)

_VERSION_6 = (
    '    in_ns "$ns" sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.disable_ipv6=0'
)

# Messages to the engine are lines "tcplab: …" on stderr: steps and failures.
# A machine in virtual time skips its idle time, also while a busy host reads a program for it, so
# await is patient.
_LIBRARY = """\
set -u
step() {
    doing=${2:-$1}
    echo "tcplab: step $1" >&2
}
fail() {
    echo "tcplab: failed: $*" >&2
    exit 1
}
in_ns() {
    where=$1
    shift
    ip netns exec "$where" "$@"
}
batch() {
    file=$1
    shift
    "$@" >batch.out 2>batch.err || fail "$file: $(tr '\\n' ' ' <batch.err)"
}
are_available() {
    for name; do
        grep -qw "$name" /proc/sys/net/ipv4/tcp_available_congestion_control || return 1
    done
}
await() {
    tries=0
    until grep -q "$2" "$1"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "$doing: not ready after a minute $(tail -n 1 "$3")"
        [ ! -s "$3" ] || fail "$doing: $(tail -n 1 "$3")"
        sleep 0.05
    done
}
qdisc_state() {
    for ns in left r1 r2 $third; do
        echo "@@ $ns"
        tc -n $ns -s -j qdisc show
        echo
    done
}
uptime_now() {
    read -r now _ </proc/uptime
    echo "$now"
}
"""
