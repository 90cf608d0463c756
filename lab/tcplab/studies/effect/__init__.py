"""Does `tcpilot report` say what steering everything gains?  Campaigns' records, and their page."""
