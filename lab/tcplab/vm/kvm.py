"""Whether this host's KVM boots a kernel.  /dev/kvm may exist and still not do it (nested
virtualisation), so the answer comes from one short boot and is kept in the cache."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

from tcplab.vm import qemu
from tcplab.vm.cache import cache_dir, locked, say
from tcplab.vm.errors import VmError

PROBE_TIMEOUT_S = 20.0
_DEVICE = Path("/dev/kvm")


def works(kernel_version: str, boot: Callable[[], object]) -> bool:
    """The last result of `boot` for this host, this QEMU and this kernel.

    `boot` starts the kernel with KVM and raises VmError on failure.
    """
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return False
    emulator = Path(qemu.program()).stat()
    host = f"{platform.node()} {platform.release()} qemu {emulator.st_size}"
    key = f"{host} kernel {kernel_version}"
    path = cache_dir() / "kvm.json"
    with locked(cache_dir(), "kvm"):
        known = json.loads(path.read_text()) if path.exists() else {}
        if key not in known:
            known[key] = _try(boot)
            temporary = path.with_suffix(".new")
            temporary.write_text(json.dumps(known, indent=2) + "\n")
            temporary.rename(path)
    return bool(known[key])


def _try(boot: Callable[[], object]) -> bool:
    try:
        boot()
    except VmError as problem:
        say(f"KVM does not boot this kernel, emulating from now on ({problem})")
        return False
    return True
