"""Reports the kernel's time for acknowledgements, by congestion control.  Runs alongside a cell.

    python3 reader.py OBJECT    OBJECT: ack_cost.bpf.c, compiled

Prints "attached", and at SIGTERM a line of JSON.  Standard library only, and libbpf.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys

NAME = 16


class _Cost(ctypes.Structure):
    _fields_ = (("calls", ctypes.c_uint64), ("ns", ctypes.c_uint64))


class AckCost:
    """Attaches the programs of an object, until the process ends."""

    def __init__(self, path: str) -> None:
        self.lib = lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
        for name in ("object__open_file", "object__next_program", "program__attach"):
            getattr(lib, f"bpf_{name}").restype = ctypes.c_void_p
        opened = lib.bpf_object__open_file(path.encode(), None)
        if not opened or lib.bpf_object__load(ctypes.c_void_p(opened)):
            sys.exit(f"{path}: cannot be loaded")
        self.object = ctypes.c_void_p(opened)
        program = None
        while program := lib.bpf_object__next_program(self.object, ctypes.c_void_p(program)):
            if not lib.bpf_program__attach(ctypes.c_void_p(program)):
                sys.exit(f"{path}: cannot be attached")
        self.map = lib.bpf_object__find_map_fd_by_name(self.object, b"costs")

    def all(self) -> dict[str, dict[str, int]]:
        """Calls and nanoseconds so far, by the algorithm's name."""
        found: dict[str, dict[str, int]] = {}
        last, key = None, ctypes.create_string_buffer(NAME)
        while not self.lib.bpf_map_get_next_key(self.map, last, key):
            cost = _Cost()
            self.lib.bpf_map_lookup_elem(self.map, key, ctypes.byref(cost))
            found[key.value.decode()] = {"acks": cost.calls, "ns": cost.ns}
            last = ctypes.create_string_buffer(key.raw, NAME)
        return found


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    cost = AckCost(sys.argv[1])
    print("attached", flush=True)
    signal.sigwait({signal.SIGTERM})
    print(json.dumps(cost.all()), flush=True)


if __name__ == "__main__":
    main()
