"""Writes the commit into a wheel, so that results of an installed tcplab name it.  All else about
the package is in pyproject.toml."""

from __future__ import annotations

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


def commit() -> str:
    """With a plus if files differ; empty outside of a checkout."""
    words = (
        ["git", "ls-files", "--error-unmatch", "pyproject.toml"],
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
    )
    said = ""
    for command in words:
        try:
            answer = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        except OSError:
            return ""
        if answer.returncode != 0:
            return ""
        said = answer.stdout.strip()
    return said


class BuildWithCommit(build_py):
    """An editable installation asks git each time instead."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode and (found := commit()):
            (Path(self.build_lib) / "tcplab" / "commit").write_text(f"{found}\n")


setup(cmdclass={"build_py": BuildWithCommit})
