"""Multipath QUIC beside MPTCP: records of campaigns, and the page that is made of them."""
