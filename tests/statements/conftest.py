"""The modules of this folder are a package named `statements`, for the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

if "statements" not in sys.modules:
    package = ModuleType("statements")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules["statements"] = package
