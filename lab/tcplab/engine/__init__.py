"""Engines run cells.  Both run the same script (script.py), made here, outside: `here` in
namespaces of its own on this kernel, `vm` in a virtual machine.

The script is shell and not Python because in virtual time the guest pays for every instruction:
importing pyroute2 alone takes 5 virtual seconds and, the first time, half a minute of ours; and
bpftune's user land has no Python.  `ip -batch` and `tc -batch` do the same, and know RED, PIE and
fq; pyroute2 (0.9) does not.
"""
