"""Why a cell could not run: one line with the remedy."""


class EngineError(Exception):
    """The engine cannot run cells at all: programs, kernel or privileges are missing."""


class CellError(Exception):
    """One cell failed: its script, its machine, or its disk."""
