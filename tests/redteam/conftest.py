"""The modules of this folder import each other by name, here and in the processes that the tests start."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
