"""The modules of this folder are a package named `pinned`, for the tests and for specs that name a class in it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

if "pinned" not in sys.modules:
    package = ModuleType("pinned")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules["pinned"] = package
