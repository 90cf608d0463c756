"""Who imports whom: lower layers know nothing of higher ones, and no two modules each other."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tcplab"

LAYERS = (
    ("algorithms", "catalogue", "vm"),
    ("published",),
    ("scenario",),
    ("topology",),
    ("traffic",),
    ("engine",),
    ("results",),
    ("metrics",),
    ("report", "diff", "export", "notebook"),
    ("run",),
    ("studies",),
    ("cli",),
)
"""Lowest first.  Parts of one layer do not import one another.  `tcplab/__init__.py` and
`__main__.py` are doors to the whole and belong to none."""
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
DOORS = ("__init__", "__main__")


def imports_of(source: str, known: set[str]) -> set[str]:
    """Our modules imported anywhere in a source, also inside functions, except for types only."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import name`: a module of the package, or what a module has.
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (below & known) or {node.module}
    return found & known


def graph() -> dict[str, set[str]]:
    """Each module with its imports."""
    files = {}
    for file in PACKAGE.rglob("*.py"):
        parts = ["tcplab", *file.relative_to(PACKAGE).with_suffix("").parts]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    known = set(files) - {"tcplab", "tcplab.__main__"}
    return {name: imports_of(files[name].read_text(), known) for name in known}


def part(module: str) -> str:
    return module.split(".")[1]


def upward(modules: dict[str, set[str]]) -> list[str]:
    """Imports of a higher layer, or of another part of the same one."""
    return sorted(
        f"{importer} imports {imported}"
        for importer, found in modules.items()
        for imported in found
        if part(importer) != part(imported) and HEIGHT[part(importer)] <= HEIGHT[part(imported)]
    )


def test_every_part_has_a_layer() -> None:
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert there - set(DOORS) == set(HEIGHT)


def test_no_layer_imports_a_higher_one() -> None:
    modules = graph()
    assert len(modules) > 90
    assert sum(map(len, modules.values())) > 200
    assert upward(modules) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert list(TopologicalSorter(graph()).static_order())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import tcplab.run.local", {"tcplab.run.local"}),
        ("def f():\n    from tcplab.run import local", {"tcplab.run.local"}),
        ("from tcplab.run.local import Done", {"tcplab.run.local"}),
        ("from tcplab.run import missing", {"tcplab.run"}),
        ("if TYPE_CHECKING:\n    from tcplab.run import local", set()),
        ("import json", set()),
    ],
)
def test_imports_are_seen_wherever_they_stand(source: str, expected: set[str]) -> None:
    assert imports_of(source, {"tcplab.run", "tcplab.run.local"}) == expected


def test_an_import_of_a_higher_layer_is_found() -> None:
    assert upward({"tcplab.results.writer": {"tcplab.studies.pilot.summary"}})
    assert not upward({"tcplab.studies.pilot.records": {"tcplab.vm.machine"}})
