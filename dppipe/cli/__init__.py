"""The command line: thin commands over the layers above.

`app.py` lists them; each has a file of its own.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the `dppipe` command."""
    from dppipe.cli.app import app

    app()
