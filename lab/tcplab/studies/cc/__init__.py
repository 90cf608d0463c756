"""Ours against the kernel's: the same run with both, in virtual time.

`cells` says what is run, `guest` runs it inside the machine, `compare` boots it and keeps the
results, `table` judges and prints them.
"""
