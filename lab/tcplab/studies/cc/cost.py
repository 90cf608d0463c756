"""Reads ack_cost.bpf.c: how long the kernel worked on acknowledgements.  Inside the machine."""

from __future__ import annotations

import ctypes
import sys

NAME = 16


class _Cost(ctypes.Structure):
    _fields_ = (("calls", ctypes.c_uint64), ("ns", ctypes.c_uint64))


class AckCost:
    """Attaches the programs of an object with libbpf, until the process ends."""

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

    def of(self, algorithm: str) -> tuple[int, int]:
        """Calls and nanoseconds so far."""
        cost = _Cost()
        key = ctypes.create_string_buffer(algorithm.encode(), NAME)
        self.lib.bpf_map_lookup_elem(self.map, key, ctypes.byref(cost))
        return cost.calls, cost.ns
