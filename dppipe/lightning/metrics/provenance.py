"""Metrics carry their provenance: of all that is logged, only what validation logs leaves a fit.

Lightning keeps logged values in one collection for training and one for validation. During a
private fit the training collection takes nothing, and what leaves the validation collection gets a
name that says whose records it was computed on. Loggers get these names, and mark what reaches them
in any other way. So training metrics of a baseline, a fit without a budget, have names under
`nonprivate/`. All this is done by patches on the Trainer's objects, which are undone after the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from dppipe.errors import RECORD_ERRORS
from dppipe.learners.records.silenced_output import silenced
from dppipe.lightning.isolation.callback_snapshot import CallbackSnapshot
from dppipe.lightning.isolation.controls import Controls
from dppipe.lightning.isolation.module_snapshot import ModuleSnapshot
from dppipe.lightning.metrics.monitors import admit_monitors, refuse_unlogged_monitors
from dppipe.lightning.patches import Patches
from dppipe.runs.metric_names import Holdout, public_name, unknown_name, validation_name

if TYPE_CHECKING:
    import pytorch_lightning as pl


class Provenance:
    """Lets metrics out of one fit only under names that say where they come from.

    Guarantee: in a private fit, a value that is logged outside validation on the declared holdout
    reaches no callback, scheduler, progress bar or file under `val/`. If the holdout is private
    and the fit is too, metrics of the holdout reach loggers alone, under `nonprivate/val/`, and
    whatever validation changes on the Trainer, the module, the optimizers or callbacks is undone
    after it.
    """

    def __init__(self, *, holdout: Holdout, private: bool) -> None:
        self.metrics: dict[str, Any] = {}
        """What the last validation logged, by the names that the module gave."""
        self.show: Callable[[Mapping[str, float]], None] | None = None
        """Takes what a baseline logs in training, under names that say so."""
        self._holdout = holdout
        self._private = private
        self._hides = private and holdout == "private"
        self._validating = False
        self._named: set[str] = set()
        self._trainer: pl.Trainer | None = None
        self._loggers: list[tuple[Any, Callable[..., None]]] = []
        """The loggers of the fit, each with its own `log_metrics`."""
        self._patches = Patches()

    def begin(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Control everything that is logged through Lightning, until `end`."""
        self._trainer = trainer
        if self._private:
            admit_monitors(trainer, self._patches, public_metrics=not self._hides)
        training = trainer.fit_loop.epoch_loop
        validation = training.val_loop
        put = self._patches.put
        if self._private:
            for owner in (module, *_callbacks(trainer)):
                put(owner, "log", self._only_in_validation(module.log))
                put(owner, "log_dict", self._only_in_validation(module.log_dict))
            # Code that has kept the module's own `log` from before ends here too.
            put(training._results, "log", _do_nothing)
        else:
            put(training._results, "log", _with_batch_size(training._results.log))
            connector = trainer._logger_connector
            put(connector, "log_metrics", self._shown(connector.log_metrics))
        put(validation, "run", self._validation(validation.run, trainer))
        put(validation._results, "metrics", self._leaving(validation._results.metrics, trainer))
        patched: set[int] = set()
        for logger in trainer.loggers:
            if id(logger) not in patched:
                patched.add(id(logger))
                self._loggers.append((logger, logger.log_metrics))
                put(logger, "log_metrics", self._renamed(logger.log_metrics))

    def refuse_unlogged(self, trainer: pl.Trainer, *, resumed: bool) -> None:
        """Refuse monitors of a metric that validation doesn't log; a resumed fit has passed."""
        if self._private and not self._hides and not resumed:
            refuse_unlogged_monitors(trainer)

    def end(self) -> None:
        """Leave the Trainer, its loggers and the module as they were."""
        self._patches.undo()
        self._loggers.clear()
        self._trainer = None

    def log_known(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Log values of dppipe's own, whose names already say where they come from."""
        for logger, log_metrics in self._loggers:
            log_metrics(dict(metrics), step=step)
            logger.save()

    def _only_in_validation(self, log: Callable[..., None]) -> Callable[..., None]:
        def muted(*args: Any, **kwargs: Any) -> None:
            if self._validating:
                log(*args, **kwargs)

        return muted

    def _shown(self, log_metrics: Callable[..., None]) -> Callable[..., None]:
        def shown(metrics: Mapping[str, Any], step: int | None = None) -> None:
            if self.show is not None and not self._validating:
                self.show({unknown_name(name): float(value) for name, value in metrics.items()})
            log_metrics(metrics, step)

        return shown

    def _validation(self, run: Callable[[], Any], trainer: pl.Trainer) -> Callable[[], Any]:
        def guarded() -> Any:
            before: list[Controls | ModuleSnapshot | CallbackSnapshot] = []
            if self._hides:
                before = [
                    Controls(trainer),
                    ModuleSnapshot(trainer.lightning_module),
                    CallbackSnapshot(trainer),
                ]
            self.metrics.clear()
            self._validating = True
            try:
                return run()
            finally:
                self._validating = False
                for each in before:
                    each.restore()

        return guarded

    def _leaving(self, metrics: Callable[[bool], Any], trainer: pl.Trainer) -> Callable[..., Any]:
        def named(on_step: bool) -> Any:
            try:
                with silenced() if self._hides else nullcontext():
                    found = metrics(on_step)
            except RECORD_ERRORS:
                # A metric that can't be computed is missing: no record of a private holdout may
                # end a run, in the Trainer's sanity check either.
                if not self._hides:
                    raise
                found = {"callback": {}, "log": {}, "pbar": {}}
            self.metrics.update(found["callback"])
            shown: dict[str, Any] = {}
            for name, value in found["log"].items():
                shown[validation_name(name, holdout=self._holdout)] = value
            self._named.update(shown)
            if self._hides:
                return {"callback": {}, "log": shown, "pbar": {}}
            return {"callback": found["callback"], "log": shown, "pbar": found["pbar"]}

        return named

    def _renamed(self, log_metrics: Callable[..., None]) -> Callable[..., None]:
        def renamed(metrics: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
            named = {self._logger_name(name, value): value for name, value in metrics.items()}
            log_metrics(named, *args, **kwargs)

        return renamed

    def _logger_name(self, name: str, value: Any) -> str:
        """Return the name under which a logger gets a value, by where the value comes from."""
        if self._validating and name in self._named:
            return name
        if name == "hp_metric" and value == -1:
            return name  # TensorBoardLogger's placeholder: its page of hyperparameters needs it
        if name == "epoch" or name in self._optimizer_settings():
            return public_name(name)
        return unknown_name(name)

    def _optimizer_settings(self) -> Iterator[str]:
        """Yield the names that Lightning's LearningRateMonitor has for the optimizers' settings."""
        for callback in _callbacks(self._trainer):
            if any(cls.__name__ == "LearningRateMonitor" for cls in type(callback).__mro__):
                yield from callback.lrs
                yield from callback.last_momentum_values
                yield from callback.last_weight_decay_values


def _callbacks(trainer: pl.Trainer | None) -> list[Any]:
    """Return a Trainer's callbacks, which get Lightning's `log` as an attribute of their own."""
    return list(getattr(trainer, "callbacks", ()))


def _with_batch_size(log: Callable[..., None]) -> Callable[..., None]:
    """Return a `log` that doesn't look for a batch size: a private loader's batch has none."""

    def sized(*args: Any, batch_size: int | None = None, **kwargs: Any) -> None:
        log(*args, batch_size=batch_size or 1, **kwargs)

    return sized


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""
