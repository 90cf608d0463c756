"""Multipath QUIC and MPTCP: records of campaigns, and their page."""
