"""`python -m dppipe` is the `dppipe` command."""

from __future__ import annotations

from dppipe.cli import main

main()
