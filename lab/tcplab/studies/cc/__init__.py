"""tcpilot's congestion controls compared with the kernel's (campaign `modules`) and with their laws
(`laws`): records, and the tables of their pages."""
