#!/usr/bin/env python3
"""Makes a book with a search of docs/ and the pages around it, by mdbook: `make book`.

    scripts/book.py MDBOOK FOLDER    FOLDER/html is the book

mdbook takes the pages of one folder, and ours also link to README.md or CHANGELOG.md in the folder
above. So the pages are copied to FOLDER/src, each with its path in this repository, and the links
between them work unchanged. Then every link of the book must lead to a file, and to its heading.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)]+)\)")


def from_root(link: str) -> str:
    """A link of docs/SUMMARY.md, as it reads in the folder above."""
    return link.removeprefix("../") if link.startswith("../") else f"docs/{link}"


def stage(source: Path) -> None:
    """Copies docs and the other linked pages; SUMMARY.md moves to the top."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source / "docs", ignore=shutil.ignore_patterns("*.parquet"))
    summary = (source / "docs/SUMMARY.md").rename(source / "SUMMARY.md")
    text = LINK.sub(lambda found: f"]({from_root(found[1])})", summary.read_text())
    summary.write_text(text)
    for page in LINK.findall(text):
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, source / page)


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def broken(book: Path) -> list[str]:
    # 404.html is written for the root of a server.
    pages = {file: Page(file) for file in book.rglob("*.html") if file.name != "404.html"}
    dead = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            anchor = unquote(parts.fragment)
            found = target.is_file() or (target / "index.html").is_file()
            if not found or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append(f"{file.relative_to(book)}: {link}")
    return sorted(dead)


def main() -> int:
    mdbook, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    stage(folder / "src")
    shutil.copy(ROOT / "book.toml", folder)
    subprocess.run([mdbook, "build", str(folder)], check=True)
    dead = broken(folder / "html")
    for line in dead:
        print(f"book: broken link: {line}", file=sys.stderr)
    print(folder / "html/index.html")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
