"""Campaigns compared with published figures, and on a host: records, and the tables of their
page."""
