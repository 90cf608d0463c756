"""Runs campaigns: jobs side by side, progress, resuming, scaling out."""
