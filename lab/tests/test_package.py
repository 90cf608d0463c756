"""The packages' content.  Needs `make deb`, a part of `make machine-test`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from debs import ROOT, package
from test_documents import broken

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    for one in (package("tcpilot"), package("tcpilot-doc")):
        subprocess.run(["dpkg-deb", "-x", one, folder], check=True)
    return folder


def test_programs_come_without_the_documents() -> None:
    assert package("tcpilot").stat().st_size < 6_000_000
    assert package("tcpilot-doc").stat().st_size > 1_000_000


def test_each_link_between_its_documents_leads_somewhere(files: Path) -> None:
    pages = sorted((files / "usr/share/doc/tcpilot").rglob("*.md"))
    assert len(pages) > 30
    assert [link for page in pages for link in broken(page)] == []


def test_its_headers_compile_the_template_of_an_algorithm(files: Path, tmp_path: Path) -> None:
    template = files / "usr/share/doc/tcpilot/docs/use/template.bpf.c"
    shutil.copy(template, tmp_path / "mine.bpf.c")
    machine = subprocess.check_output(["gcc", "-print-multiarch"], text=True).strip()
    command = ["clang", "-g", "-O2", "-mcpu=v3", "-target", "bpf", "-Wall", "-Werror"]
    # In the place of libbpf-dev: tcpilot's own copy.
    libbpf = next((ROOT / "target/release/build").glob("libbpf-sys-*/out/include"))
    headers = [files / "usr/share/tcpilot/bpf/cc/lib", Path("/usr/include") / machine, libbpf]
    command += [word for folder in headers for word in ("-I", str(folder))]
    subprocess.run([*command, "-c", "mine.bpf.c"], cwd=tmp_path, check=True)


def test_example_configuration_is_valid_and_equals_the_defaults(files: Path) -> None:
    example = files / "usr/share/doc/tcpilot/examples/tcpilot.toml"
    lines = example.read_text().splitlines()
    assert sum(bool(re.match(r"# [a-z0-9_]+ = ", line)) for line in lines) > 50
    in_force = [line for line in lines if line and not line.startswith(("#", "["))]
    assert in_force == []
    binary = files / "usr/bin/tcpilot"
    said = [
        subprocess.check_output([binary, "config", "show", file], text=True)
        for file in (example, "/dev/null")
    ]
    assert said[0] == said[1]


def test_manual_pages_render_without_warnings(files: Path) -> None:
    pages = sorted((files / "usr/share/man").rglob("*.gz"))
    assert len(pages) > 20
    for page in pages:
        answer = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
        )
        assert (answer.returncode, answer.stderr) == (0, ""), page.name
