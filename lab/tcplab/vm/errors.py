"""What can go wrong with a machine, one class per cause, so that callers can tell them apart.

Every message says what happened, where, and what to do about it.
"""


class VmError(Exception):
    """Anything that kept the command from running to its end."""


class SetupError(VmError):
    """The host lacks something: a package, a download, a damaged cache."""


class UnknownNameError(VmError):
    """A kernel or root that the table does not have."""


class BootError(VmError):
    """The kernel never reached the point where the command starts."""


class KernelPanicError(VmError):
    """The guest's kernel panicked, or met an oops, before the command ended."""


class TimedOutError(VmError):
    """The wall-clock limit passed before the command ended."""


class EmulatorError(VmError):
    """QEMU itself failed, was killed, or ended while the command was running."""


class GuestSetupError(VmError):
    """The guest booted but could not be prepared: a module, a mount or a sysctl failed."""
