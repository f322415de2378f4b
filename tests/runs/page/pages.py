"""What tests of the page share: directories to make it of, and a reader of what it holds."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dppipe.runs.directory import RunDirectory
from dppipe.runs.page.writing import write_report

EARLIER = Path(__file__).parents[1] / "earlier"
KINDS = sorted(path.name for path in EARLIER.iterdir() if path.is_dir())
VOID = {"meta", "link", "br", "img"}


class PageReader(HTMLParser):
    """Reads a page: its elements, its text, and what it refers to; refuses unbalanced tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "srcset", "data"):
                self.references.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def copied(kind: str, folder: Path) -> RunDirectory:
    """Copy a run directory, without any data beside it."""
    path = folder / kind
    shutil.copytree(EARLIER / kind, path)
    return RunDirectory.open(path)


def change_summary(run: RunDirectory, **changes: Any) -> None:
    known = json.loads(run.summary.read_text())
    run.summary.write_text(json.dumps(known | changes))


def page(run: RunDirectory, **options: Any) -> str:
    return write_report(run, **options).read_text()
