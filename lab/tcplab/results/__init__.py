"""Results: immutable directories, written once and only read afterwards."""
