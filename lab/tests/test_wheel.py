"""The laboratory installed as a wheel, outside of this checkout."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

LAB = Path(__file__).parents[1]
# Without the paths that lead to this checkout.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since building leaves its folders beside the source."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "lab"
    shutil.copytree(LAB / "tcplab", source / "tcplab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(LAB / "pyproject.toml", source)
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, check=True, capture_output=True
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment that has the wheel, and the dependencies of ours."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    subprocess.run([*pip, "-q", "--no-deps", "--no-index", str(wheel)], check=True, env=ENVIRONMENT)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Only the path: links to this checkout that lie there are not followed.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "bin"


def said(installed: Path, *command: str) -> str:
    """What a command prints, in a place that has nothing to do with this checkout."""
    answer = subprocess.run(
        [installed / command[0], *command[1:]],
        cwd=installed.parent,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_every_file_is_in_the_wheel(wheel: Path) -> None:
    """Asked of git, so that a new kind of file is not forgotten."""
    tracked = subprocess.run(
        ["git", "ls-files", "tcplab", "scenarios"], cwd=LAB, check=True, capture_output=True
    )
    names = [name for name in tracked.stdout.decode().splitlines() if name != "tcplab/scenarios"]
    wanted = {n if n.startswith("tcplab/") else f"tcplab/{n}" for n in names if (LAB / n).exists()}
    assert len(wanted) > 150
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def test_an_installed_tcplab_finds_its_campaigns_and_kernels(installed: Path) -> None:
    names = {row["name"] for row in json.loads(said(installed, "tcplab", "list", "--json"))}
    assert names == {path.stem for path in (LAB / "scenarios").glob("*/*.toml")}
    assert "good, 238 cells" in said(installed, "tcplab", "check", "fairness")
    assert "6.12" in said(installed, "python", "-m", "tcplab.vm", "list")
    where = said(installed, "python", "-c", "import tcplab; print(tcplab.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_an_installed_tcplab_takes_no_commit_from_a_repository_around_it(installed: Path) -> None:
    around = installed.parent
    subprocess.run(["git", "init", "-q", str(around)], check=True)
    code = "from tcplab.results import manifest; print(manifest._commit())"
    assert said(installed, "python", "-c", code) == "(None, False)\n"
