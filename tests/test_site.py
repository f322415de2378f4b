"""The documentation site: every page is in it, every link leads somewhere, nothing comes from a network."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from markdown.extensions.toc import slugify, unique

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINKING = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|``[^`]+``|`[^`\n]+`", flags=re.DOTALL)


def settings() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages_in(entry: Any) -> list[str]:
    """Return the pages of a part of the nav."""
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [page for child in children for page in pages_in(child)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    seen: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).replace("`", "")
        unique(slugify(words, "-"), seen)
    return seen


def broken(text: str, place: Path) -> list[str]:
    """Return the relative links of a text at a place that lead nowhere."""
    wrong = []
    for target in LINK.findall(CODE.sub("", text)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        other = (place.parent / name).resolve() if name else place
        if not other.exists() or (anchor and anchor not in anchors(other)):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_every_relative_link_and_anchor_of_a_page_resolves(page: Path) -> None:
    assert broken(page.read_text(encoding="utf-8"), page) == []


def test_a_broken_link_and_a_broken_anchor_are_found() -> None:
    text = "[a](faq.md) [b](missing.md) [c](faq.md#missing) [d](#missing) `[e](code.md)`"
    found = broken(text, ROOT / "docs/quickstart.md")
    assert found == ["missing.md", "faq.md#missing", "#missing"]


def test_every_page_is_in_the_nav_once_and_every_entry_is_a_page() -> None:
    listed = pages_in(settings()["nav"])
    notebooks = [f"notebooks/{each.stem}.md" for each in (ROOT / "docs/notebooks").glob("*.ipynb")]
    assert sorted(listed) == sorted(["index.md", *notebooks, *(page.name for page in PAGES)])


def test_the_page_of_the_api_shows_every_public_name_of_the_package() -> None:
    shown = re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), flags=re.MULTILINE)
    found = []
    for path in shown:
        module, _, name = path.rpartition(".")
        found.append(getattr(importlib.import_module(module), name))
    for name in dppipe.__all__:
        if name not in ("Field", "__version__"):
            assert any(getattr(dppipe, name) is each for each in found), name


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_list_after_a_paragraph_is_set_apart_but_not_in_code() -> None:
    apart = hooks().lists_apart
    assert apart("Text:\n- one\n- two\n  more\n- three\n") == (
        "Text:\n\n- one\n- two\n  more\n- three\n"
    )
    code = "```\ntext\n- one\n```\n"
    assert apart(code) == code


def test_links_of_the_readme_are_those_of_the_first_page() -> None:
    moved = hooks().readme_as_page("[a](docs/faq.md#x) [b](benchmarks/results.md) [c](https://a.b)")
    assert moved == "[a](faq.md#x) [b](../benchmarks/results.md) [c](https://a.b)"


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_a_network(
    tmp_path: Path,
) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    styles = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//")
    for page in pages:
        assert loads.findall(page.read_text(encoding="utf-8")) == [], page.name
    for sheet in tmp_path.rglob("*.css"):
        assert not styles.search(sheet.read_text(encoding="utf-8")), sheet.name
