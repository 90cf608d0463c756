"""Tables and records of campaigns that measure the pilot: its gain and its cost, beside bpftune.

    python -m tcplab.studies.pilot show DIR         # tables and targets of a campaign
    python -m tcplab.studies.pilot publish DIR…     # its records, into docs/measured/data
    python -m tcplab.studies.pilot report           # docs/measured/results.md from all records

Records are made of the campaigns cost, tunings, short-direct, bulk, memory, scale, choice and
choice-direct; `publish` takes whole runs of a clean commit only.
"""
