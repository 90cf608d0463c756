"""The measurements of the pilot: its gain and its cost, beside bpftune.

    python -m tcplab.studies.pilot choice|cost|short|bulk|scale|memory [--quick] [--out DIR]
    python -m tcplab.studies.pilot publish [--out DIR]
    python -m tcplab.studies.pilot report
    python -m tcplab.studies.pilot judge DIR

Each runs in a machine of its own (tcplab.vm), and leaves the machine's whole output and a record of
its results in results/pilot.  `publish` copies records of whole runs of a clean commit to
docs/measured/data/pilot.jsonl, from which `report` writes docs/measured/results.md.
`judge` says of a campaign of tcplab (choice-utility, cold, change, long, interference) which cells
reach what a learner has to.
"""
