"""Virtual machines with the host's files: `run` executes one command under a kernel."""

from tcplab.vm.errors import VmError
from tcplab.vm.kernels import Kernel, fetch
from tcplab.vm.machine import Machine, Result, run

__all__ = ["Kernel", "Machine", "Result", "VmError", "fetch", "run"]
