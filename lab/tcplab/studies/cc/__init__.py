"""tcpilot's congestion controls beside the kernel's (`modules`) and beside their laws (`laws`):
each judges the campaign of its name."""
