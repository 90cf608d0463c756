"""The cache: its place, whole entries, detection and repair of damage."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tcplab.vm import kernels, roots
from tcplab.vm.apt import Package
from tcplab.vm.cache import cache_dir, listing_sha256, locked, new_entry, sha256_of
from tcplab.vm.errors import SetupError, UnknownNameError
from tcplab.vm.kernels import Kernel

RELEASE = "6.1.0-50-amd64"


def fill(folder: Path) -> Kernel:
    """A small kernel entry such as `fetch` leaves behind."""
    modules = folder / "root/lib/modules" / RELEASE
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text("kernel/net/sch_netem.ko:\n")
    (modules / "sch_netem.ko").write_bytes(b"module")
    (folder / "vmlinux").write_bytes(b"\x7fELF kernel")
    kernel = Kernel(
        name="6.1",
        release=RELEASE,
        version="6.1.176-1",
        suite="bookworm",
        vmlinux_sha256=sha256_of(folder / "vmlinux"),
        modules_sha256=listing_sha256(modules),
        packages=(Package("linux-image-" + RELEASE, "6.1.176-1", 5, "00"),),
        folder=folder,
    )
    fields = asdict(kernel)
    del fields["folder"]
    (folder / "manifest.json").write_text(json.dumps(fields))
    return kernel


def test_the_cache_follows_the_environment_in_order() -> None:
    environment = {"TCPILOT_CACHE": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}
    assert cache_dir(environment) == Path("/own")
    del environment["TCPILOT_CACHE"]
    assert cache_dir(environment) == Path("/xdg/tcpilot")
    del environment["XDG_CACHE_HOME"]
    assert cache_dir(environment) == Path("/home/me/.cache/tcpilot")


def test_a_whole_entry_is_used_without_apt(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fill(cache / "kernels/6.1")
    monkeypatch.setenv("PATH", "/nowhere")
    assert kernels.fetch("6.1") == kernel


def test_a_moved_cache_stays_whole(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(cache / "kernels/6.1")
    cache.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("TCPILOT_CACHE", str(tmp_path / "elsewhere"))
    found = kernels.cached("6.1")
    assert found is not None
    assert found.vmlinux.exists()


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("vmlinux", b"\x7fELF kerneX"),
        (f"root/lib/modules/{RELEASE}/sch_netem.ko", b"modul"),
        ("manifest.json", b"{"),
        ("manifest.json", b"{}"),
    ],
)
def test_a_damaged_entry_is_not_used(cache: Path, file: str, body: bytes) -> None:
    folder = cache / "kernels/6.1"
    fill(folder)
    (folder / file).write_bytes(body)
    assert kernels.cached("6.1") is None


def test_a_lost_file_is_damage(cache: Path) -> None:
    folder = cache / "kernels/6.1"
    fill(folder)
    (folder / f"root/lib/modules/{RELEASE}/sch_netem.ko").unlink()
    assert kernels.cached("6.1") is None


def test_a_damaged_entry_is_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache / "kernels/6.1"
    fill(folder)
    (folder / "vmlinux").write_bytes(b"damage")

    def build(_wanted: kernels.Source) -> Kernel:
        with new_entry(folder) as new:
            return fill(new)

    monkeypatch.setattr(kernels, "_fetch_anew", build)
    kernels.fetch("6.1")
    assert kernels.cached("6.1") is not None


def test_a_download_with_another_hash_is_refused(tmp_path: Path) -> None:
    class Mirror:
        def download(self, package: Package, folder: Path) -> Path:
            (folder / "x.deb").write_bytes(b"not what the index says")
            return folder / "x.deb"

    with pytest.raises(SetupError, match="SHA256"):
        kernels.download(Mirror(), Package("x", "1", 1, "00"), tmp_path)  # type: ignore[arg-type]


def test_failed_replacement_keeps_old_entry_without_leftovers(tmp_path: Path) -> None:
    target = tmp_path / "entry"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(KeyboardInterrupt), new_entry(target) as new:
        (new / "half").touch()
        raise KeyboardInterrupt
    assert [p.relative_to(tmp_path) for p in tmp_path.rglob("*")] == [
        Path("entry"),
        Path("entry/old"),
    ]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    stale = tmp_path / ".entry.new-abc"
    stale.mkdir()
    with new_entry(tmp_path / "entry") as new:
        (new / "file").touch()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["entry"]


def test_a_second_process_waits_for_the_lock(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tcplab.vm.cache import locked\n"
        f"with locked(Path({str(tmp_path)!r}), '6.1'): print('got it')"
    )
    with locked(tmp_path, "6.1"):
        other = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        assert other.stderr is not None
        assert "waiting" in other.stderr.readline()
        assert other.poll() is None
    output, _ = other.communicate(timeout=20)
    assert output == "got it\n"


def test_unknown_kernel_error_lists_known_kernels() -> None:
    with pytest.raises(UnknownNameError, match=r"5\.4.*6\.1"):
        kernels.source("5.4")


def test_root_may_be_a_folder_with_programs(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "land/bin").mkdir(parents=True)
    assert roots.resolve(str(tmp_path / "land")) == tmp_path / "land"
    with pytest.raises(UnknownNameError, match="bin"):
        roots.resolve(str(tmp_path))
