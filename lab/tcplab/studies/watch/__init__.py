"""Trains and judges the classifier of `tcpilot watch`: `python -m tcplab.studies.watch`."""
