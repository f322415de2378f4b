"""The modules of this folder are a package named `redteam`, for the tests and for specs that name a class in it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

if "redteam" not in sys.modules:
    package = ModuleType("redteam")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules["redteam"] = package
