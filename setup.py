"""Puts the recipes into the wheel; everything else about the package is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = {"pipelines": ("*.yaml", "*.pt"), "plugins": ("*.py",)}
"""Folders of the repository that a wheel contains as `dppipe/shipped/`, with the files to take."""


class BuildWithRecipes(build_py):
    """Copies the recipes beside the package's modules."""

    def run(self) -> None:
        """Build the package and add the recipes; an editable install finds them as they are."""
        super().run()
        if self.editable_mode:
            return
        for folder, patterns in SHIPPED.items():
            for pattern in patterns:
                for file in sorted((ROOT / folder).rglob(pattern)):
                    target = Path(self.build_lib, "dppipe/shipped", file.relative_to(ROOT))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, target)


setup(cmdclass={"build_py": BuildWithRecipes})
