"""What the site adds to `docs/`: the README as its first page, and linked files from elsewhere.

The pages are written for whoever reads them in the repository. So their links may leave `docs/`,
and a list may follow a paragraph without an empty line. The site can do neither by itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = "repository"
"""The folder of the site that holds linked files from outside of `docs/`."""
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*```")
ITEM = re.compile(r"^(?:[-*]|\d+\.) ")


class ListsApart(Extension):
    """Lets a list follow a paragraph directly, in pages and in docstrings."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Look at the lines before anything else does."""
        md.preprocessors.register(_Apart(md), "lists_apart", 100)


class _Apart(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with an empty one before each list."""
        return lists_apart("\n".join(lines)).splitlines()


def on_config(config: Any) -> Any:
    """Use the extension above."""
    config.markdown_extensions.append(ListsApart())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page, and each linked file from outside of `docs/`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme_as_page(readme)))
    for name in sorted(linked_outside()):
        files.append(File.generated(config, f"{OUTSIDE}/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with links that stay within the site."""
    if page.file.src_uri.startswith(f"{OUTSIDE}/"):
        markdown = LINK.sub(_plain_if_relative, markdown)
    return LINK.sub(_link_inside, markdown)


def linked_outside() -> set[str]:
    """Return the files that pages link to and that lie in the repository, outside of `docs/`."""
    found = set()
    for page in (ROOT / "docs").glob("*.md"):
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith("../"):
                found.add(target.removeprefix("../").partition("#")[0])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in LINK.findall(readme):
        if not target.startswith(("docs/", "http", "#")):
            found.add(target.partition("#")[0])
    return found


def readme_as_page(text: str) -> str:
    """Return the README with its links as seen from `docs/`."""

    def moved(match: re.Match[str]) -> str:
        target = match[1]
        if target.startswith("docs/"):
            return f"]({target.removeprefix('docs/')})"
        return match[0] if target.startswith(("http", "#")) else f"](../{target})"

    return LINK.sub(moved, text)


def lists_apart(text: str) -> str:
    """Return a text in which an empty line stands before each list, as Python-Markdown needs it."""
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        after_text = bool(before.strip()) and not before.startswith(" ") and not ITEM.match(before)
        if not in_code and ITEM.match(line) and after_text:
            lines.append("")
        if FENCE.match(line):
            in_code = not in_code
        lines.append(line)
    return "\n".join(lines) + "\n"


def _link_inside(match: re.Match[str]) -> str:
    target = match[1]
    return f"]({OUTSIDE}/{target.removeprefix('../')})" if target.startswith("../") else match[0]


def _plain_if_relative(match: re.Match[str]) -> str:
    return match[0] if match[1].startswith("http") else "](#)"
