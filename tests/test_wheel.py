"""A wheel holds all that its commands need: recipes, data sets, and no word on files it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
NEEDED = (
    "dppipe/data/published/digits.npz",
    "dppipe/data/published/README.md",
    "dppipe/learners/measured.json",
    "dppipe/py.typed",
    "dppipe/shipped/pipelines/quickstart.yaml",
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel of what is committed or not ignored, and unpack it outside the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        source = ROOT / name
        if source.is_file() and not name.startswith(("tests/", "docs/", "benchmarks/")):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*command, "-w", str(folder), str(folder / "source")], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def dppipe_of(site: Path, *words: str, cwd: Path) -> str:
    """Run a command of the unpacked wheel, from a folder without the repository."""
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "80"}
    code = "import sys, dppipe; sys.argv[0] = 'dppipe'; from dppipe.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_recipes_of_a_wheel_can_be_listed_copied_and_run(unpacked: Path, tmp_path: Path) -> None:
    for name in NEEDED:
        assert (unpacked / name).is_file(), name
    code = "import dppipe; print(dppipe.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    found = subprocess.check_output(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True
    )
    assert Path(found.strip()).is_relative_to(unpacked)
    listed = dppipe_of(unpacked, "recipes", "list", cwd=tmp_path)
    names = [line for line in listed.splitlines() if not line.startswith(" ")]
    assert "quickstart" in names
    for name in ("learners/private_pca", "plugins/soft_clip"):
        dppipe_of(unpacked, "recipes", "copy", name, "--to", f"copies/{name}", cwd=tmp_path)
    dppipe_of(unpacked, "recipes", "copy", "quickstart", cwd=tmp_path)
    ran = dppipe_of(unpacked, "run", "quickstart.yaml", "--run-dir", "first", cwd=tmp_path)
    assert (tmp_path / "first" / "privacy.md").exists()
    assert "docs/" not in ran
    dppipe_of(unpacked, "export", "first", "--format", "safetensors", cwd=tmp_path)
    assert (tmp_path / "quickstart.safetensors.md").exists()
