"""Paths shared by a cell's script and its tuners."""

CGROUP = "${cgroup:-${TCPLAB_CGROUP:-/sys/fs/cgroup}}"
"""The cgroup of the cell's programs, in shell: the engine `here` makes one, a machine has its
own."""
