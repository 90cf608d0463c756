"""The measurements of the pilot: what it gains, what it costs, beside bpftune.

    python -m tcplab.studies.pilot choice|cost|short|bulk|scale|memory [--quick] [--out DIR]
    python -m tcplab.studies.pilot report [--out DIR]

Each runs in a machine of its own (tcplab.vm), and leaves the machine's whole output and a
JSON file of results, from which `report` writes docs/measured/results.md.
"""
