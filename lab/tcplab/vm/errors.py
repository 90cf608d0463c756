"""The ways in which a machine can fail, one class per cause, for callers to distinguish.

Every message names the failure, its place, and the remedy.
"""


class VmError(Exception):
    """Any obstacle to running the command to its end."""


class SetupError(VmError):
    """The host lacks something: a package, a download, a damaged cache."""


class UnknownNameError(VmError):
    """A kernel or root missing in the table."""


class BootError(VmError):
    """The kernel never came to start the command."""


class KernelPanicError(VmError):
    """The guest's kernel panicked, or met an oops, before the command ended."""


class TimedOutError(VmError):
    """The wall-clock limit passed before the command ended."""


class EmulatorError(VmError):
    """QEMU itself failed, was killed, or ended while the command was running."""


class GuestSetupError(VmError):
    """The guest booted but could not be prepared: a module, a mount or a sysctl failed."""
