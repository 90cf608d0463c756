"""Traffic: what flowgen is told, and what it says."""
