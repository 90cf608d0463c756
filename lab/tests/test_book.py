"""The book's table of contents, docs/SUMMARY.md, has every page of docs/, once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_book_has_every_page_once() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (DOCS / "SUMMARY.md").read_text())
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"SUMMARY.md"}
    assert Counter(link for link in links if not link.startswith("../")) == Counter(pages)
