"""The command line `tcplab`."""
