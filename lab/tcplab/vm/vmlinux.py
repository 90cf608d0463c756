"""Takes the uncompressed kernel out of a distribution's vmlinuz.

x86: QEMU starts an ELF kernel through its PVH entry point, without the decompressor: under
emulation that stage alone costs seconds.  Layout: Documentation/arch/x86/boot.rst.
arm64: QEMU starts an Image (Documentation/arch/arm64/booting.rst).  Newer kernels of Debian's have
it inside a self-unpacking EFI program (drivers/firmware/efi/libstub/zboot-header.S).
"""

from __future__ import annotations

import gzip
import lzma
import struct
import subprocess

from tcplab.vm.arch import ARM64
from tcplab.vm.errors import SetupError

_SETUP_SECTORS_OFFSET = 0x1F1
_HEADER_MAGIC_OFFSET = 0x202
_PAYLOAD_OFFSET = 0x248
_SECTOR_BYTES = 512
_ELF_MAGIC = b"\x7fELF"
_ARM64_MAGIC = b"ARM\x64"
_ARM64_MAGIC_OFFSET = 56
_ZBOOT_MAGIC = b"zimg"
_ZBOOT_MAGIC_OFFSET = 4


def is_bzimage(image: bytes) -> bool:
    return image[_HEADER_MAGIC_OFFSET : _HEADER_MAGIC_OFFSET + 4] == b"HdrS"


def is_elf(image: bytes) -> bool:
    return image.startswith(_ELF_MAGIC)


def image_of(vmlinuz: bytes, debian_arch: str) -> bytes:
    """The part of `vmlinuz` for QEMU to start, for an architecture by its name in Debian."""
    return arm64_image(vmlinuz) if debian_arch == ARM64.debian else extract(vmlinuz)


def arm64_image(vmlinuz: bytes) -> bytes:
    """The Image: `vmlinuz` itself, or its content."""
    if vmlinuz[_ZBOOT_MAGIC_OFFSET : _ZBOOT_MAGIC_OFFSET + 4] == _ZBOOT_MAGIC:
        offset, length = struct.unpack_from("<II", vmlinuz, _ZBOOT_MAGIC_OFFSET + 4)
        vmlinuz = _decompress(vmlinuz[offset : offset + length])
    if vmlinuz.startswith(b"\x1f\x8b"):
        vmlinuz = gzip.decompress(vmlinuz)
    if vmlinuz[_ARM64_MAGIC_OFFSET : _ARM64_MAGIC_OFFSET + 4] != _ARM64_MAGIC:
        raise SetupError("this vmlinuz holds no arm64 Image; fetch the kernel again")
    return vmlinuz


def extract(image: bytes) -> bytes:
    """The ELF kernel inside the bzImage `image`."""
    if not is_bzimage(image):
        raise SetupError("this vmlinuz is not an x86 bzImage; fetch the kernel again")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_OFFSET)
    # Zero sectors means four, for boot loaders older than the field.
    start = ((image[_SETUP_SECTORS_OFFSET] or 4) + 1) * _SECTOR_BYTES + offset
    # The payload ends with its uncompressed size, four bytes beyond the format's end.
    vmlinux = _decompress(image[start : start + length - 4])
    if not is_elf(vmlinux):
        raise SetupError("this vmlinuz holds no ELF kernel; fetch the kernel again")
    return vmlinux


def _decompress(payload: bytes) -> bytes:
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return gzip.decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return _unzstd(payload)
    raise SetupError(f"this vmlinuz is compressed in an unknown way ({payload[:6].hex()})")


def _unzstd(payload: bytes) -> bytes:
    try:
        answer = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True)
    except FileNotFoundError as absent:
        raise SetupError("zstd is not installed; run: python -m tcplab.vm setup") from absent
    if answer.returncode != 0:
        raise SetupError(f"zstd cannot read this vmlinuz: {answer.stderr.decode().strip()}")
    return answer.stdout
