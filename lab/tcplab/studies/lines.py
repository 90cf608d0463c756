"""Files of records, a JSON object a line: plain, or compressed if the name ends with `.xz`.

Published records are compressed, to a twentieth of their size.  `xz -dc FILE` shows them.
"""

from __future__ import annotations

import lzma
from pathlib import Path


def read(path: Path) -> str:
    """The text of a file."""
    content = path.read_bytes()
    return (lzma.decompress(content) if path.suffix == ".xz" else content).decode()


def replace(path: Path, text: str) -> None:
    """Replaces a file at once."""
    content = text.encode()
    temporary = path.with_suffix(".new")
    packed = lzma.compress(content, preset=9) if path.suffix == ".xz" else content
    temporary.write_bytes(packed)
    temporary.replace(path)
