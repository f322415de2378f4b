"""What a run says: on its console, in warnings and in logs."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field

import pytest

LOGGERS = (None, "pytorch_lightning", "lightning_fabric")
"""Lightning's loggers have handlers of their own; all others hand on to the first."""


@dataclass
class Heard:
    """What a run says."""

    console: io.StringIO = field(default_factory=io.StringIO)
    messages: list[str] = field(default_factory=list)


@contextmanager
def listening() -> Iterator[Heard]:
    """Collect what is printed, warned of and logged."""
    heard = Heard()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.messages.append(f"{record.name}: {record.getMessage()}")

    with pytest.MonkeyPatch.context() as patch:
        for name in LOGGERS:
            patch.setattr(logging.getLogger(name), "handlers", [Listener()])
            patch.setattr(logging.getLogger(name), "propagate", False)
        with (
            redirect_stdout(heard.console),
            redirect_stderr(heard.console),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            yield heard
            heard.messages += [
                f"{warning.category.__name__}: {warning.message}" for warning in caught
            ]
