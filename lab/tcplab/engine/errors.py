"""Why cells could not run: lines with the remedy."""


class EngineError(Exception):
    """The engine cannot run cells at all: programs, kernel or privileges are missing.  It has a
    line for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CellError(Exception):
    """One cell failed: its script, its machine, or its disk."""
