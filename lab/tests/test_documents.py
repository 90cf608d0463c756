"""Links between the documents of this repository lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def headings(text: str) -> set[str]:
    """The anchors of a page, as forges make them from its headings."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in found}


def broken(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in headings(target.read_text())
        ):
            dead.append(f"{page}: {link}")
    return dead


def test_links_lead_to_existing_files_and_headings() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    pages = [ROOT / name for name in listed.stdout.splitlines()]
    assert len(pages) > 20
    assert [link for page in pages for link in broken(page)] == []
