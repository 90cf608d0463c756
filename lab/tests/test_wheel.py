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
# Without the paths to this checkout.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since building leaves folders in the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "lab"
    shutil.copytree(LAB / "tcplab", source / "tcplab", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(LAB / name, source)
    return built(source)


def built(source: Path) -> Path:
    """A wheel of this source, in the folder around it."""
    folder = source.parent
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, check=True, capture_output=True
    )
    (found,) = folder.glob("*.whl")
    return found


def small(folder: Path) -> Path:
    """A source with one module, in a repository of its own."""
    source = folder / "lab"
    (source / "tcplab").mkdir(parents=True)
    (source / "tcplab" / "__init__.py").touch()
    (source / "pyproject.toml").write_text('[project]\nname = "tcplab"\nversion = "0.1"\n')
    shutil.copy(LAB / "setup.py", source)
    (source / ".gitignore").write_text("build\n*.egg-info\n")
    git = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    return source


def test_a_wheel_has_the_commit_of_its_source(tmp_path: Path) -> None:
    source = small(tmp_path / "clean")
    with zipfile.ZipFile(built(source)) as wheel:
        baked = wheel.read("tcplab/commit").decode().strip()
    head = subprocess.check_output(["git", "-C", str(source), "rev-parse", "HEAD"], text=True)
    assert head.startswith(baked) and len(baked) >= 12
    changed = small(tmp_path / "changed")
    (changed / "tcplab" / "__init__.py").write_text("x = 1\n")
    with zipfile.ZipFile(built(changed)) as wheel:
        assert wheel.read("tcplab/commit").decode().strip().endswith("+")


def test_a_wheel_without_git_has_none(wheel: Path) -> None:
    assert "tcplab/commit" not in zipfile.ZipFile(wheel).namelist()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment with the wheel, and with our dependencies."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    subprocess.run([*pip, "-q", "--no-deps", "--no-index", str(wheel)], check=True, env=ENVIRONMENT)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Only the path: links in it to this checkout are not followed.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "bin"


def said(installed: Path, *command: str) -> str:
    """A command's output, in a place unrelated to this checkout."""
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
    """git lists the files, so a new kind of file is not forgotten."""
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


def test_installed_tcplab_ignores_commit_of_enclosing_repository(installed: Path) -> None:
    around = installed.parent
    subprocess.run(["git", "init", "-q", str(around)], check=True)
    code = "from tcplab.results import manifest; print(manifest._commit())"
    assert said(installed, "python", "-c", code) == "(None, False)\n"
    (package,) = around.glob("lib/python*/site-packages/tcplab")
    (package / "commit").write_text("0123456789ab+\n")
    assert said(installed, "python", "-c", code) == "('0123456789ab', True)\n"
    (package / "commit").unlink()
