"""Modules left out of Debian's kernels: their packages, and their way into a machine."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tcplab.vm import extra
from tcplab.vm.apt import Package
from tcplab.vm.cache import sha256_of
from tcplab.vm.errors import SetupError, UnknownNameError
from tcplab.vm.kernels import Kernel
from tcplab.vm.machine import Machine, guest_files, run

RELEASE = "7.2.13+deb14-amd64"
NAME = "sch_dualpi2"


def kernel_in(folder: Path, listed: str = "kernel/net/sched/sch_pie.ko.xz:\n") -> Kernel:
    modules = folder / "root/lib/modules" / RELEASE
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text(listed)
    return Kernel("7.2", RELEASE, "7.2.13-1", "sid", "", "", (), folder)


def built(kernel: Kernel, name: str, _source: str, folder: Path) -> None:
    """In place of the real building."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.ko").write_bytes(b"\x7fELF module")
    digest = sha256_of(folder / f"{name}.ko")
    (folder / "manifest.json").write_text(f'{{"sha256": "{digest}"}}')
    (folder / "builds").open("a").write("x")


def test_the_packages_are_those_of_the_kernel(tmp_path: Path) -> None:
    assert extra.needed(kernel_in(tmp_path)) == [
        "linux-headers-7.2.13+deb14-amd64",
        "linux-headers-7.2.13+deb14-common",
        "linux-kbuild-7.2.13+deb14",
        "linux-source-7.2",
    ]


def test_packages_of_another_version_are_refused(tmp_path: Path) -> None:
    kernel = kernel_in(tmp_path)
    found = [Package(name, kernel.version, 1, "00") for name in extra.needed(kernel)]
    newer = replace(found[3], version="7.2.14-1")
    assert extra.of_kernel(kernel, [newer, *found]) == found
    with pytest.raises(SetupError, match=r"no linux-source-7\.2 7\.2\.13-1 any more; delete"):
        extra.of_kernel(kernel, [*found[:3], newer])


def test_one_file_is_taken_out_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "usr/src").mkdir(parents=True)
    with tarfile.open(tmp_path / "usr/src/linux-source-7.2.tar.xz", "w:xz") as archive:
        for name in ("net/sched/sch_pie.c", "net/sched/sch_dualpi2.c"):
            entry = tarfile.TarInfo(f"linux-source-7.2/{name}")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    extra._one_file(tmp_path, "net/sched/sch_dualpi2.c", tmp_path)
    assert (tmp_path / "sch_dualpi2.c").read_text() == "net/sched/sch_dualpi2.c"
    with pytest.raises(SetupError, match=r"has no net/none\.c"):
        extra._one_file(tmp_path, "net/none.c", tmp_path)


def test_module_is_rebuilt_only_if_damaged(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra, "_build", built)
    kernel = kernel_in(tmp_path / "kernel")
    module = extra.fetch(kernel, NAME)
    assert module == cache / f"modules/{RELEASE}-{NAME}/{NAME}.ko"
    assert extra.fetch(kernel, NAME) == module
    assert (module.parent / "builds").read_text() == "x"
    module.write_bytes(b"cut short")
    extra.fetch(kernel, NAME)
    assert (module.parent / "builds").read_text() == "xx"


def test_only_modules_that_the_kernel_lacks_are_built(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra, "_build", built)
    lacking = kernel_in(tmp_path / "lacking")
    assert list(extra.prepare(lacking, ["sch_pie", NAME, "sch_none"])) == [NAME]
    having = kernel_in(tmp_path / "having", f"kernel/net/sched/{NAME}.ko.xz:\n")
    assert extra.prepare(having, [NAME]) == {}
    # Nobody has built it for other kernels, or for one's own.
    assert extra.prepare(replace(lacking, name="6.1"), [NAME]) == {}
    with pytest.raises(
        UnknownNameError, match=r"no module 'sch_none' for 7\.2; it has sch_dualpi2"
    ):
        extra.fetch(lacking, "sch_none")


def test_a_machine_brings_the_file_and_inserts_it(cache: Path, tmp_path: Path) -> None:
    kernel = kernel_in(tmp_path / "kernel")
    module = tmp_path / f"{NAME}.ko"
    module.write_bytes(b"\x7fELF module")
    machine = Machine("7.2", modules=("sch_tbf", NAME))
    files = guest_files(machine, kernel, (), ["true"], Path("/"), {NAME: module})
    assert files[f"{NAME}.ko"] == b"\x7fELF module"
    assert f"modules='sch_tbf /run/tcplab/{NAME}.ko'" in files["config"].decode()


@pytest.mark.vm
def test_kernel_7_2_machine_loads_dualpi2() -> None:
    script = (
        "tc qdisc add dev lo root dualpi2 && tc qdisc show dev lo && grep dualpi2 /proc/modules"
    )
    result = run(Machine("7.2", modules=(NAME,)), ["sh", "-c", script])
    assert result.status == 0, result.stderr
    assert b"qdisc dualpi2" in result.stdout
    here = Path("/proc/modules")  # a kernel without modules has none
    assert not here.exists() or NAME not in here.read_text()
