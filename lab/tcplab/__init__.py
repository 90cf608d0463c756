"""The laboratory of tcpilot: scenarios, machines, metrics and reports."""
