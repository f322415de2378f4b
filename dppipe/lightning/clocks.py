"""Options and callbacks of a Trainer that go by the clock.

How long a step takes depends on the records in it. A clock may therefore neither end a run nor
choose when it is validated or saved: the number of steps and the files would follow the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytorch_lightning as pl


_WHY = "how long steps take depends on the records"


def clock_faults(trainer: pl.Trainer) -> Iterator[str]:
    """Yield the options and callbacks that would let the clock decide how training goes on."""
    if getattr(trainer, "_val_check_time_interval", None) is not None:
        yield f"val_check_interval: expected a number of steps, got a time: {_WHY}. Give steps."
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        name = type(callback).__name__
        if _is(callback, "Timer") and getattr(callback, "_duration", None) is not None:
            yield (
                f"max_time, {name}: expected no time limit: {_WHY}, so their number would too. "
                "Set max_steps, or stop the run by a signal and go on with it later."
            )
        if _is(callback, "ModelCheckpoint") and getattr(callback, "_train_time_interval", None):
            advice = "Set every_n_train_steps"
            yield f"callbacks: {name}: expected no train_time_interval: {_WHY}. {advice}."


def _is(callback: pl.Callback, name: str) -> bool:
    """Return whether a callback is of a class of this name, from either of Lightning's packages."""
    return any(cls.__name__ == name for cls in type(callback).__mro__)
