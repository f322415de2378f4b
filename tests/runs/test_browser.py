"""TensorBoard's dashboard in a browser: what a person sees of a run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec import load_spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("chromium") is None, reason="Chromium is missing: make browser installs it"
    ),
]

_CURVE = (255, 112, 67)
_BUDGET = (0, 119, 187)
"""The first two colours of TensorBoard's palette: those of the run and of its first sub-run."""


def _screenshot(address: str, place: Path) -> NDArray[np.int64]:  # -> [height, width, 3]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=25000"]
    size = ["--hide-scrollbars", "--window-size=1400,1000", f"--screenshot={place}"]
    subprocess.run(["chromium", *options, *size, address], capture_output=True, timeout=180)
    return np.asarray(Image.open(place).convert("RGB"), dtype=np.int64)


def _like(picture: NDArray[np.int64], colour: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray(np.abs(picture - np.array(colour)).max(axis=2) < 12)


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("http"):
            return line.strip()
    raise AssertionError("no address was printed")


def test_curve_budget_line_and_statement_are_visible(tmp_path: Path) -> None:
    path = tmp_path / "digits" / "first"
    spec = load_spec("pipelines/quickstart.yaml", overrides=["train={steps: 20}"])
    run_spec(spec, make_plan(spec), run_dir=path)
    command = [sys.executable, "-m", "dppipe", "tensorboard", str(path)]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = _address(server)
        assert address.endswith("#custom_scalars&_smoothingWeight=0")
        time.sleep(5)  # until the first reading of the files is done
        charts = _screenshot(address, tmp_path / "charts.png")[150:340, 420:720]
        budget = _like(charts, _BUDGET).sum(axis=1)
        assert budget.max() > 150  # a straight line over most of the first chart
        curve = _like(charts, _CURVE)
        assert curve.any(axis=0).sum() > 100
        assert curve.any(axis=1).sum() > 60  # it rises
        base = address.split("#", maxsplit=1)[0]
        asked = (
            f"{base}data/plugin/text/text?run=digits%2Ffirst&tag=privacy+statement%2Ftext_summary"
        )
        with urllib.request.urlopen(asked) as answer:
            assert "differentially private" in answer.read().decode()
        statement = _screenshot(f"{base}#text", tmp_path / "text.png")[260:720, 400:1300]
        assert _like(statement, (33, 33, 33)).sum() > 2000  # text, in a box that was empty
    finally:
        server.terminate()
        server.wait(timeout=30)
        if server.stdout is not None:
            server.stdout.close()
