"""Machines of another architecture: their downloads, roots and command lines."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from tcplab.vm import arch, kernels, machine, qemu, vmlinux
from tcplab.vm.apt import PrivateApt
from tcplab.vm.errors import SetupError
from tcplab.vm.machine import Machine


def image(size: int = 100) -> bytes:
    """The head of an arm64 Image: its magic is at 56."""
    return (b"\0" * 56 + b"ARM\x64").ljust(size, b"\1")


def zboot(payload: bytes) -> bytes:
    offset = 64
    head = b"MZ\0\0zimg" + struct.pack("<II", offset, len(payload))
    return head.ljust(offset, b"\0") + payload + b"the rest of the EFI program"


def kernel(debian: str) -> kernels.Kernel:
    return kernels.Kernel("6.1", "6.1.0", "6.1.1", "bookworm", "", "", (), Path("/none"), debian)


def test_arm64_image_is_read_raw_gzipped_or_zboot() -> None:
    for vmlinuz in (image(), gzip.compress(image()), zboot(gzip.compress(image()))):
        assert vmlinux.image_of(vmlinuz, "arm64") == image()
    with pytest.raises(SetupError, match="no arm64 Image"):
        vmlinux.image_of(b"\x7fELF".ljust(100), "arm64")


def test_the_emulator_is_that_of_the_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu.shutil, "which", lambda name: f"/usr/bin/{name}")
    place = tmp_path / "file"
    boot = qemu.Boot(place, place, place, 1, "1G", False, True, (), arch.ARM64)
    line = qemu.arguments(boot, dict.fromkeys(qemu.PORTS, "/dev/null"))
    assert line[0] == "/usr/bin/qemu-system-aarch64"
    assert line[line.index("-machine") + 1] == "virt"
    assert "console=ttyAMA0" in line[line.index("-append") + 1]


def test_another_architecture_has_lists_of_its_own(tmp_path: Path) -> None:
    own = PrivateApt(tmp_path, ("sid",), arch.host())
    other = PrivateApt(tmp_path, ("sid",), arch.ARM64)
    assert (own.home.name, other.home.name) == ("sid", "sid-arm64")


def test_all_names_lists_kernels_of_host_architecture() -> None:
    assert {kernels.source(name).arch for name in kernels.all_names()} == {arch.host().debian}
    assert {entry.arch for entry in kernels.sources().values()} == {"amd64", "arm64"}


def test_foreign_architecture_kernel_needs_a_matching_root(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="trixie-arm64"):
        machine.busybox_of(Machine("6.12-arm64"), kernel("arm64"))
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/busybox").touch()
    found = machine.busybox_of(Machine("6.12-arm64", root=tmp_path), kernel("arm64"))
    assert found == tmp_path / "usr/bin/busybox"
