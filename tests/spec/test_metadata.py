"""What is said of the package outside of it: one version, one license, one name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

import dppipe

ROOT = Path(dppipe.__file__).parents[1]


def test_the_citation_is_of_this_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"] == dppipe.__version__
    assert citation["license"] == project["license"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in project["authors"]
    ]
