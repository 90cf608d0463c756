"""Traffic: flowgen's input and output."""
