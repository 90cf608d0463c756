"""tcpilot's congestion controls compared with the kernel's (`modules`) and with their laws
(`laws`): each judges the campaign of its name."""
