"""The guest's files, and QEMU's command line; nothing boots here."""

from __future__ import annotations

import lzma
import os
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tcplab.vm import initramfs, kvm, process, qemu, vmlinux
from tcplab.vm.cli import HARNESS_FAILED, main, make_parser
from tcplab.vm.errors import (
    BootError,
    EmulatorError,
    GuestSetupError,
    KernelPanicError,
    SetupError,
    TimedOutError,
    VmError,
)
from tcplab.vm.machine import Machine, command_script, config_script
from tcplab.vm.process import Ended, Sinks, supervise

AWKWARD = ["printf", "%s|", "a b", "it's", '"$HOME"', "new\nline", "", "*", "é"]


def run_script(script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", script], capture_output=True)


def test_arguments_reach_the_command_unchanged(tmp_path: Path) -> None:
    script = command_script(Machine("6.1"), "6.1.0", AWKWARD, tmp_path)
    assert run_script(script).stdout == "|".join([*AWKWARD[2:], ""]).encode()


def test_command_starts_in_its_folder_with_environment(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    machine = Machine("6.1", env={"GREETING": "it's $me"})
    show = ["sh", "-c", 'pwd; echo "$GREETING $TCPLAB_KERNEL"']
    output = run_script(command_script(machine, "6.1.0", show, folder)).stdout.decode()
    assert output.splitlines() == [str(folder), "it's $me 6.1.0"]


def test_a_missing_program_has_the_shells_status(tmp_path: Path) -> None:
    script = command_script(Machine("6.1"), "6.1.0", ["no-such-program"], tmp_path)
    assert run_script(script).returncode == 127


def test_only_writable_folders_are_mounted_writable() -> None:
    shares = (qemu.Share("root", Path("/")), qemu.Share("rw0", Path("/srv/it's"), True))
    script = config_script(Machine("6.1"), "6.1.0", shares, Path("/srv"))
    heard = run_script(f'share() {{ echo "$@"; }}\n{script}mount_shares').stdout.decode()
    assert heard.splitlines() == [
        "modules lib/modules/6.1.0 ro loose",
        "rw0 srv/it's rw mmap",
    ]


def test_a_tmp_folder_is_bound_into_guest_tmp() -> None:
    script = config_script(Machine("6.1"), "6.1.0", (), Path("/tmp/work"))
    stubs = "share() { :; }; make() { echo make $1; }; bb=echo\n"
    heard = run_script(f"{stubs}{script}mount_shares").stdout.decode()
    assert heard.splitlines() == ["make tmp/work", "mount --bind /lower/tmp/work tmp/work"]


def test_virtual_time_needs_one_emulated_cpu() -> None:
    with pytest.raises(ValueError, match="one CPU"):
        Machine("6.1", cpus=2, virtual_time=True)
    with pytest.raises(ValueError, match="KVM"):
        Machine("6.1", kvm=True, virtual_time=True)


def boot_of(folder: Path, virtual_time: bool = False) -> qemu.Boot:
    shares = (qemu.Share("root", Path("/")), qemu.Share("rw0", Path("/a,b"), True))
    return qemu.Boot(
        kernel=folder / "vmlinux",
        initramfs=folder / "initramfs",
        console=folder / "console.log",
        cpus=1,
        memory="1G",
        kvm=False,
        virtual_time=virtual_time,
        shares=shares,
    )


PORT_PATHS = {port: f"/dev/null/{port}" for port in qemu.PORTS}


def test_only_virtual_time_counts_instructions(tmp_path: Path) -> None:
    assert "-icount" not in qemu.arguments(boot_of(tmp_path), PORT_PATHS)
    line = qemu.arguments(boot_of(tmp_path, virtual_time=True), PORT_PATHS)
    assert line[line.index("-icount") + 1] == "shift=0,sleep=off"


def test_only_marked_shares_are_writable_and_commas_escaped(tmp_path: Path) -> None:
    line = qemu.arguments(boot_of(tmp_path), PORT_PATHS)
    root, kept = (argument for argument in line if argument.startswith("local,"))
    assert "readonly=on" in root
    assert "readonly=off" in kept
    assert "path=/a,,b," in kept


def test_the_archive_holds_the_files_and_their_folders(tmp_path: Path) -> None:
    archive = initramfs.Cpio()
    archive.add("a/b/script", b"#!/bin/sh\nexit 3\n")
    archive.add("a/empty", b"")
    (tmp_path / "archive").write_bytes(archive.finish())
    unpack = ["busybox", "cpio", "-i", "-d", "-F", str(tmp_path / "archive")]
    subprocess.run(unpack, cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "a/b/script"]).returncode == 3
    assert (tmp_path / "a/empty").read_bytes() == b""


def test_module_is_decompressed_and_its_signature_removed(tmp_path: Path) -> None:
    signature = b"s" * 77
    info = bytes(8) + struct.pack(">I", len(signature))
    signed = b"\x7fELF module" + signature + info + b"~Module signature appended~\n"
    (tmp_path / "a.ko.xz").write_bytes(lzma.compress(signed))
    (tmp_path / "b.ko").write_bytes(b"\x7fELF unsigned")
    assert initramfs.module_body(tmp_path / "a.ko.xz") == b"\x7fELF module"
    assert initramfs.module_body(tmp_path / "b.ko") == b"\x7fELF unsigned"


def test_libraries_are_read_from_ldd() -> None:
    output = (
        "\tlinux-vdso.so.1 (0x00007ffc)\n"
        "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n"
        "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
    )
    assert initramfs.shared_libraries(output) == [
        Path("/lib/x86_64-linux-gnu/libc.so.6"),
        Path("/lib64/ld-linux-x86-64.so.2"),
    ]


def bzimage(payload: bytes) -> bytes:
    """A boot image with one setup sector after the boot sector (boot protocol 2.08)."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 16, len(payload) + 4)
    return bytes(head) + bytes(16) + payload + struct.pack("<I", 0) + b"rest"


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-cq"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("compress", [lzma.compress, zstd])
def test_kernel_is_extracted_from_its_boot_image(compress) -> None:  # type: ignore[no-untyped-def]
    kernel = b"\x7fELF" + os.urandom(5000)
    assert vmlinux.extract(bzimage(compress(kernel))) == kernel


@pytest.mark.parametrize(
    "image", [b"MZ" + bytes(2000), bzimage(b"junk!!"), bzimage(lzma.compress(b"no elf"))]
)
def test_invalid_kernel_images_are_refused(image: bytes) -> None:
    with pytest.raises(SetupError):
        vmlinux.extract(image)


def pretend(script: str, monkeypatch: pytest.MonkeyPatch, folder: Path, **ports: str) -> Ended:
    """Supervises a shell script in place of QEMU; $out, $err, $ctl are the ports."""

    def arguments(boot: qemu.Boot, paths: dict[str, str]) -> list[str]:
        names = f"out={paths['stdout']} err={paths['stderr']} ctl={paths['control']}"
        return ["sh", "-c", f"{names} log={boot.console}\n{script}"]

    monkeypatch.setattr(process.qemu, "arguments", arguments)
    return supervise(boot_of(folder), Sinks(), timeout_s=float(ports.get("timeout", "10")))


def test_the_status_is_the_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "echo ready 1 >$ctl; echo status 42 >$ctl; sleep 100"
    assert pretend(script, monkeypatch, tmp_path).status == 42


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("exit 1", EmulatorError, "status 1"),
        ("echo no such device >&2; exit 1", EmulatorError, "no such device"),
        ("kill -9 $$", EmulatorError, "SIGKILL"),
        ("exit 0", BootError, "before the command started"),
        ("echo ready 1 >$ctl; exit 0", EmulatorError, "powered off"),
        (
            "echo ready 1 >$ctl; echo 'Kernel panic - not syncing: sysrq' >$log",
            KernelPanicError,
            "not syncing: sysrq",
        ),
        ("echo 'tcplab-boot-error: cannot load 9p' >$log", BootError, "cannot load 9p"),
        ("echo error modprobe x >$ctl; sleep 100", GuestSetupError, "modprobe x"),
    ],
)
def test_each_ending_has_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str,
    kind: type[VmError],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        pretend(script, monkeypatch, tmp_path)


def test_a_time_out_says_what_was_going_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(TimedOutError, match=r"0\.3 s while booting"):
        pretend("sleep 100", monkeypatch, tmp_path, timeout="0.3")
    assert time.monotonic() - started < 5


def test_arguments_after_the_dashes_are_the_command() -> None:
    line = ["run", "--kernel", "6.1", "--rw", "a", "--rw", "b", "--env", "K=V=W", "--"]
    options = make_parser().parse_args([*line, "ls", "--kernel", "-l"])
    assert options.command == ["ls", "--kernel", "-l"]
    assert options.rw == [Path("a"), Path("b")]
    assert options.env == [("K", "V=W")]


@pytest.mark.parametrize(
    "line",
    [
        ["run", "--", "true"],
        ["run", "--kernel", "6.1"],
        ["run", "--kernel", "6.1", "--env", "novalue", "--", "true"],
        ["root", "no-such-root"],
    ],
)
def test_a_wrong_command_line_is_refused(line: list[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(line)
    assert refusal.value.code == 2


@pytest.mark.parametrize(
    "line",
    [
        ["run", "--kernel", "5.4", "--", "true"],
        ["run", "--kernel", "6.1", "--rw", "/no/such/folder", "--", "true"],
        ["run", "--kernel", "6.1", "--root", "/no/such/root", "--", "true"],
        ["run", "--kernel", "6.1", "--virtual-time", "--cpus", "2", "--", "true"],
    ],
)
def test_an_error_is_one_line(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == HARNESS_FAILED
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_kvm_is_tried_once_per_host_and_kernel(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def boot() -> None:
        tried.append(1)
        raise EmulatorError("qemu was killed by SIGABRT")

    monkeypatch.setattr(kvm, "_DEVICE", cache.parent)
    assert [kvm.works("6.1.176-1", boot) for _ in range(3)] == [False] * 3
    assert len(tried) == 1
    assert kvm.works("7.2.13-1", lambda: None)


def test_without_the_device_nothing_is_tried(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "_DEVICE", cache / "absent")
    assert not kvm.works("6.1.176-1", lambda: pytest.fail("booted"))
