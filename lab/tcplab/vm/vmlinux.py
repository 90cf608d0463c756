"""Takes the uncompressed kernel out of a distribution's vmlinuz.

QEMU starts an ELF kernel through its PVH entry point, which skips the decompressor: under
emulation that stage alone costs seconds.  Layout: Documentation/arch/x86/boot.rst.
"""

from __future__ import annotations

import gzip
import lzma
import struct
import subprocess

from tcplab.vm.errors import SetupError

_SETUP_SECTORS_OFFSET = 0x1F1
_HEADER_MAGIC_OFFSET = 0x202
_PAYLOAD_OFFSET = 0x248
_SECTOR_BYTES = 512
_ELF_MAGIC = b"\x7fELF"


def is_bzimage(image: bytes) -> bool:
    return image[_HEADER_MAGIC_OFFSET : _HEADER_MAGIC_OFFSET + 4] == b"HdrS"


def is_elf(image: bytes) -> bool:
    return image.startswith(_ELF_MAGIC)


def extract(image: bytes) -> bytes:
    """The ELF kernel inside the bzImage `image`."""
    if not is_bzimage(image):
        raise SetupError("this vmlinuz is not an x86 bzImage; fetch the kernel again")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_OFFSET)
    # Zero sectors means four, for boot loaders older than the field.
    start = ((image[_SETUP_SECTORS_OFFSET] or 4) + 1) * _SECTOR_BYTES + offset
    # The payload ends with its uncompressed size, four bytes that no format expects.
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
