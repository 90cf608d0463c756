"""Boots kernels: `pytest -m vm`.  The first run downloads two kernels into the cache."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from guest_probe import MODULES

from tcplab.vm import Machine, Result, fetch, run
from tcplab.vm.errors import EmulatorError, GuestSetupError, KernelPanicError, TimedOutError

pytestmark = pytest.mark.vm

LAB = Path(__file__).parent.parent
OLDEST, NEWEST = "6.1", "7.2"
LIMIT_S = 180.0


def sh(machine: Machine, script: str) -> Result:
    return run(machine, ["sh", "-c", script], cwd=LAB)


def qemus_of(parent: int) -> list[int]:
    """Process ids of the emulators started by `parent`."""
    answer = subprocess.run(
        ["ps", "--ppid", str(parent), "-o", "pid=,comm="], capture_output=True, text=True
    )
    rows = (line.split() for line in answer.stdout.splitlines())
    return [int(pid) for pid, name, *_ in rows if name.startswith("qemu")]


def workplaces(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("tcplab-vm-*")]


@pytest.mark.parametrize("kernel", [OLDEST, NEWEST])
def test_stdout_stderr_and_status_are_the_commands(kernel: str) -> None:
    script = (
        "uname -r; pwd; printf '\\000no newline'; echo oops >&2; echo more >/dev/stderr; exit 7"
    )
    result = sh(Machine(kernel, timeout_s=LIMIT_S), script)
    assert result.stdout == f"{result.release}\n{LAB}\n\0no newline".encode()
    assert result.stderr == b"oops\nmore\n"
    assert result.status == 7
    assert result.release.startswith(f"{kernel}.")


def test_kernel_given_as_image_boots_with_modules() -> None:
    """Debian's own bzImage as its package has it, with lib/modules above it."""
    kernel = fetch(NEWEST)
    (image,) = kernel.modules_base.rglob("vmlinuz*")
    machine = Machine(str(image), timeout_s=LIMIT_S, virtual_time=True, modules=("tcp_bbr",))
    available = "/proc/sys/net/ipv4/tcp_available_congestion_control"
    result = sh(machine, f"uname -r; cat {available}")
    release, algorithms = result.stdout.decode().splitlines()
    assert release == result.release == kernel.release
    assert "bbr" in algorithms.split()


def test_output_processes_run_directly_under_init() -> None:
    # It is known by its process id; a shell in between would leave the program itself unknown,
    # and kill it with the last lines of a busy machine.
    script = """for process in /proc/[0-9]*; do
            case "$(tr '\\0' ' ' <$process/cmdline)" in
            *"/busybox cat ") grep PPid $process/status ;;
            esac
        done"""
    assert sh(Machine(NEWEST, timeout_s=LIMIT_S), script).stdout.split() == [b"PPid:", b"1"] * 2


@pytest.mark.parametrize("kernel", [OLDEST, NEWEST])
def test_the_guest_is_ready_for_the_laboratory(kernel: str) -> None:
    script = """set -e
        ip -br link show lo | grep -q UP
        grep -q "cgroup2 $TCPLAB_CGROUP cgroup2" /proc/mounts
        grep -q "bpf /sys/fs/bpf bpf" /proc/mounts
        [ -s /sys/kernel/btf/vmlinux ]
        [ "$(hostname)" = tcplab-%s ]
        touch /run/x /tmp/x /etc/x
        ip netns add left
        ip -n left link add left0 type veth peer name right0
        ip -n left link set left0 up
        tc -n left qdisc add dev left0 root netem delay 10ms
        tc -n left qdisc show dev left0 | grep -q netem
        [ "$(cat /proc/sys/net/ipv4/tcp_congestion_control)" = htcp ]
        echo 1 >/proc/sys/kernel/bpf_stats_enabled
        """
    machine = Machine(
        kernel,
        timeout_s=LIMIT_S,
        modules=["sch_fq", "tcp_bbr", "tcp_htcp", "tcp_dctcp"],
        sysctls={"net.ipv4.tcp_congestion_control": "htcp"},
    )
    result = sh(machine, script % kernel)
    assert (result.status, result.stderr) == (0, b"")
    assert not Path("/etc/x").exists()


@pytest.mark.parametrize("kernel", [OLDEST, NEWEST])
def test_a_sockops_program_attaches_and_the_modules_load(kernel: str) -> None:
    probe = run(Machine(kernel, timeout_s=LIMIT_S), ["python3", "tests/guest_probe.py"], cwd=LAB)
    assert (probe.status, probe.stderr) == (0, b"")
    facts = json.loads(probe.stdout)
    assert facts["attached"] in ("sock_ops", "cgroup_sock_ops")
    assert facts["modules"] == MODULES
    assert {"bbr", "htcp", "dctcp"} <= set(facts["available"])
    assert facts["mptcp"]
    assert facts["bpf_stats_enabled"] == "1"


def test_large_output_arrives_whole_despite_running_daemons() -> None:
    script = "sleep 1000 & seq 1 300000; seq 1 1000 >&2"
    result = sh(Machine(NEWEST, timeout_s=LIMIT_S), script)
    expected = "".join(f"{number}\n" for number in range(1, 300001)).encode()
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(expected).digest()
    assert result.stderr.splitlines()[-1] == b"1000"


def test_only_writes_below_rw_are_kept(tmp_path: Path) -> None:
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"
    kept.mkdir()
    dropped.mkdir()
    script = f"echo result >{kept}/file; mkdir -p {dropped}; echo lost >{dropped}/file"
    result = sh(Machine(NEWEST, timeout_s=LIMIT_S, rw=[kept]), script)
    assert result.status == 0
    assert (kept / "file").read_text() == "result\n"
    assert list(dropped.iterdir()) == []


def test_output_streams_while_the_command_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tcplab.vm", "run", "--kernel", NEWEST, "--"]
    with subprocess.Popen(
        [*command, "sh", "-c", "echo first; exec sleep 1000"], stdout=subprocess.PIPE, cwd=LAB
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"first\n"
        assert harness.poll() is None
        harness.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    # A shell's background programs ignore Ctrl-C.
    harness_command = ["env", "--default-signal=INT", sys.executable, "-m", "tcplab.vm", "run"]
    command = [*harness_command, "--kernel", NEWEST, "--"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*command, "sh", "-c", "echo up; exec sleep 1000"],
        stdout=subprocess.PIPE,
        cwd=LAB,
        env=environment,
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"up\n"
        (emulator,) = qemus_of(harness.pid)
        assert len(workplaces(tmp_path)) == 1
        harness.send_signal(number)
        assert harness.wait(timeout=20) == 128 + number
    assert not Path(f"/proc/{emulator}").exists()
    assert workplaces(tmp_path) == []


def test_a_time_out_ends_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    started = time.monotonic()
    with pytest.raises(TimedOutError, match="console log: "):
        sh(Machine(NEWEST, timeout_s=3), "sleep 1000")
    assert time.monotonic() - started < 15
    assert qemus_of(os.getpid()) == []
    assert workplaces(tmp_path) == []


def test_a_panic_is_told_from_a_failing_command() -> None:
    with pytest.raises(KernelPanicError, match=r"sysrq.*console log: (\S+)") as caught:
        sh(Machine(NEWEST, timeout_s=LIMIT_S), "echo c >/proc/sysrq-trigger; sleep 1000")
    log = str(caught.value).rpartition("console log: ")[2]
    assert "Kernel panic - not syncing" in Path(log).read_text()


def test_a_reboot_is_distinguished_from_command_exit() -> None:
    with pytest.raises(EmulatorError, match="rebooted"):
        sh(Machine(NEWEST, timeout_s=LIMIT_S), "echo b >/proc/sysrq-trigger; sleep 1000")


def test_a_missing_module_is_named() -> None:
    with pytest.raises(GuestSetupError, match="tcp_nonsense"):
        sh(Machine(NEWEST, timeout_s=LIMIT_S, modules=["tcp_nonsense"]), "true")


def test_virtual_time_is_repeatable_and_idling_is_free() -> None:
    # Twice: the first pass brings the programs into the guest's memory.
    script = """now() { read -r $1 _ </proc/uptime; }
        for pass in 1 2; do
            now start; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; now busy
            sleep 200; now slept; echo $start $busy $slept
        done"""
    busy_s = []
    for _ in range(2):
        result = sh(Machine(OLDEST, timeout_s=LIMIT_S, virtual_time=True), script)
        assert result.status == 0
        start, busy, slept = (float(word) for word in result.stdout.splitlines()[-1].split())
        assert 200 <= slept - busy < 210
        assert result.wall_s < 200
        busy_s.append(busy - start)
    assert busy_s[0] > 1
    # /proc/uptime counts hundredths.
    assert busy_s[0] == pytest.approx(busy_s[1], rel=0.01, abs=0.011)
