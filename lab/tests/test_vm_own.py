"""A kernel of one's own, from its file to the booted image."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from tcplab.cli.commands import settings_of
from tcplab.cli.main import make_parser
from tcplab.scenario import find, load
from tcplab.vm import kernels, own
from tcplab.vm.errors import SetupError, UnknownNameError

RELEASE = "6.99.0-mine+"
ELF = b"\x7fELF" + bytes(200) + f"Linux version {RELEASE} (me@here) #1\n".encode() + bytes(50)


def bzimage(elf: bytes = ELF) -> bytes:
    """As boot.rst has it: one sector of setup, the version's text, the payload with its size."""
    text = f"{RELEASE} (me@here) #1 SMP\0".encode()
    payload = gzip.compress(elf) + struct.pack("<I", len(elf))
    setup = bytearray(0x400)
    setup[0x1F1] = 1
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x20E, 0x300 - 0x200)
    setup[0x300 : 0x300 + len(text)] = text
    struct.pack_into("<II", setup, 0x248, 0, len(payload))
    return bytes(setup) + payload


def installed(folder: Path, *names: str) -> Path:
    """The result of modules_install."""
    modules = folder / "lib" / "modules" / RELEASE
    modules.mkdir(parents=True)
    for name in names or ("modules.dep", "modules.builtin"):
        (modules / name).write_text("")
    return folder


@pytest.mark.parametrize("content", [bzimage(), ELF], ids=["bzImage", "vmlinux"])
def test_an_image_and_its_modules_become_a_kernel(
    cache: Path, tmp_path: Path, content: bytes
) -> None:
    image, folder = tmp_path / "image", installed(tmp_path / "installed")
    image.write_bytes(content)
    kernel = kernels.fetch(f"{image}:{folder}")
    assert kernel.release == kernel.name == RELEASE
    assert kernel.vmlinux.read_bytes() == ELF
    assert kernel.modules.resolve() == folder / "lib" / "modules" / RELEASE
    assert kernel.vmlinux.is_relative_to(cache)


def test_modules_are_found_above_the_image(cache: Path, tmp_path: Path) -> None:
    installed(tmp_path)
    image = tmp_path / "arch" / "boot" / "bzImage"
    image.parent.mkdir(parents=True)
    image.write_bytes(bzimage())
    assert kernels.fetch(str(image)).modules_base.resolve() == tmp_path


def test_a_kernel_that_was_built_anew_is_another(cache: Path, tmp_path: Path) -> None:
    image = installed(tmp_path) / "bzImage"
    image.write_bytes(bzimage())
    before = kernels.fetch(str(image))
    image.write_bytes(bzimage(ELF + b"changed"))
    after = kernels.fetch(str(image))
    assert after.vmlinux.read_bytes() == ELF + b"changed"
    assert before.version != after.version, "what is remembered of one is not said of the other"


def test_modules_that_moved_are_followed(cache: Path, tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(bzimage())
    first, second = installed(tmp_path / "first"), installed(tmp_path / "second")
    assert kernels.fetch(f"{image}:{first}").modules_base.resolve() == first
    assert kernels.fetch(f"{image}:{second}").modules_base.resolve() == second


def test_missing_kernel_files_are_named_with_a_remedy(cache: Path, tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    with pytest.raises(SetupError, match="there is no such kernel image"):
        kernels.fetch(str(image))
    image.write_bytes(b"text")
    with pytest.raises(SetupError, match="neither an x86 bzImage nor an ELF vmlinux"):
        kernels.fetch(str(image))
    image.write_bytes(bzimage())
    with pytest.raises(SetupError, match=f"make modules_install .* then give {image}:DIR"):
        kernels.fetch(str(image))
    installed(tmp_path, "modules.builtin")
    with pytest.raises(SetupError, match=r"has no modules\.dep; run: depmod -b"):
        kernels.fetch(str(image))
    with pytest.raises(UnknownNameError, match=r"\./bzImage"):
        kernels.fetch("bzImage")


def test_a_campaign_keeps_the_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and resumed campaigns have other working directories."""
    monkeypatch.chdir(tmp_path)
    scenario = load(find("short"), quick=True)

    def kernel(text: str) -> str:
        options = make_parser().parse_args(["run", "short", "--kernel", text])
        return settings_of(options, scenario).kernel

    assert kernel("./bzImage:installed") == f"{tmp_path}/bzImage:{tmp_path}/installed"
    assert kernel("boot/bzImage") == f"{tmp_path}/boot/bzImage"
    assert kernel("6.12") == own.absolute("6.12") == "6.12"
