"""Files of kinds load nothing heavy: commands that don't train stay fast."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys
import dppipe.data, dppipe.models, dppipe.optim
for package in (dppipe.data, dppipe.models, dppipe.optim):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    for name in package.__all__:
        getattr(package, name)
heavy = ("torch", "numpy", "scipy", "sklearn", "dp_accounting", "lightning", "pytorch_lightning")
sys.exit(", ".join(name for name in heavy if name in sys.modules) or 0)
"""


def test_kinds_of_data_models_and_optimizers_import_light() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
