"""Weights that a fit starts from: whether a private run has trained them before.

A claim is for one training. So a callback is fitted once, and a checkpoint is restored only by the
run that wrote it. A module that was fitted before is refused; it is recognised by its parameter
objects, or by the bytes of its tensors in the file of finished runs. Weights whose training the
plan has counted (`model.pretrained`) may be started from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from dppipe.errors import PrivacyRefusal
from dppipe.learners.ranks import Ranks
from dppipe.planning.earlier.finished_runs import finished_runs
from dppipe.planning.earlier.recognition import run_id
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.directory import RunDirectory
from dppipe.runs.registration import module_hashes

if TYPE_CHECKING:
    import pytorch_lightning as pl

_TRAINED: MutableMapping[nn.Parameter, str] = WeakIdKeyDictionary()
"""The parameters that were trained in this process, with their runs; it keeps none alive."""

_RESUME = "DPCallback(resume=RunDirectory.open(RUN), ...)"
_FRESH = (
    "Take a fresh module, or name the weights by model.pretrained in a spec, which adds the cost "
    "of their training."
)


class StartingWeights:
    """What one callback knows of the weights that its fit starts from."""

    def __init__(self, resume: RunDirectory | None, *, private: bool) -> None:
        self._resume = resume
        self._private = private
        self._own = run_id(resume.path) if resume is not None else None
        self._opened: str | None = None
        self._restored = False
        self._marked = False
        self.hashes: frozenset[str] = frozenset()
        """The hashes of the tensors before the first step."""

    def refuse_second_fit(self) -> None:
        """Refuse a callback that was fitted before: its budget belongs to the run that it began."""
        if self._opened is not None:
            raise PrivacyRefusal(
                "DPCallback: expected one that wasn't fitted before, got the one of "
                f"{self._opened}: one callback is one run, with one budget. Make a new callback "
                "and a fresh module; an interrupted run goes on with "
                f"DPCallback(resume=RunDirectory.open({self._opened!r}), ...)."
            )

    def refuse_foreign_checkpoint(self, trainer: pl.Trainer) -> None:
        """Refuse a checkpoint that the resumed run didn't write: its weights' cost isn't known."""
        path = trainer.ckpt_path
        if self._private and path is not None and not self._restored:
            raise PrivacyRefusal(
                f"ckpt_path: expected none in a new private run, got {path}: its weights may have "
                "been trained on these records, which this run's ledger doesn't contain. Go on "
                f"with an interrupted run by {_RESUME}; load public weights into the module "
                "before fit."
            )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the callback's part of a checkpoint, which must be the resumed run's own."""
        is_own = self._resume is not None and state.get("run", self._own) == self._own
        if self._private and not is_own:
            by_command = self._resume is not None and self._resume.config.exists()
            raise PrivacyRefusal(
                "ckpt_path: expected none, or the checkpoint of the run that is resumed, got "
                "that of another private run: its charges aren't in this run's ledger. Go on "
                f"with it by {'dppipe resume RUN' if by_command else _RESUME}, where RUN is its "
                "own directory."
            )
        self._restored = True
        self.hashes = frozenset(state.get("start", ()))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of this."""
        own = {"run": self._own} if self._own is not None else {}
        return {"start": sorted(self.hashes), **own}

    def check(
        self, trainer: pl.Trainer, module: nn.Module, plan: StepPlan, *, ranks: Ranks
    ) -> None:
        """Refuse weights that were trained before, unless the plan counts that training."""
        self.refuse_foreign_checkpoint(trainer)
        _refuse_other_plans(plan, ranks)
        if not plan.private and plan.earlier is None:
            return
        present = module_hashes(module)
        if not self._restored or not self.hashes:
            self.hashes = present
        if not plan.private:
            return
        self._refuse_fitted(module)
        problem = ranks.agree(self._uncounted(present, plan) if ranks.first else None)
        if problem is not None:
            raise PrivacyRefusal(problem)

    def open(self, run_dir: Path | None) -> None:
        """Note the run that this fit has begun."""
        self._opened = str(run_dir.resolve()) if run_dir is not None else "its first fit"
        self._own = run_id(run_dir) if run_dir is not None else None

    def mark(self, module: nn.Module) -> None:
        """Note, before its first step, that a module's parameters are trained in this run."""
        if not self._marked and self._opened is not None:
            self._marked = True
            _note(module, self._opened)

    def mark_refused(self, trainer: pl.Trainer, module: nn.Module) -> None:
        """Note that a module has the weights of a checkpoint that was refused after it was read."""
        path = trainer.ckpt_path
        if self._private and path is not None and not self._restored:
            _note(module, f"the checkpoint {path}")

    def _refuse_fitted(self, module: nn.Module) -> None:
        own = str(self._resume.path) if self._resume is not None else None
        for name, parameter in module.named_parameters():
            before = _TRAINED.get(parameter)
            if before is not None and before != own:
                raise PrivacyRefusal(
                    "Trainer.fit: expected a module that wasn't fitted before, got one whose "
                    f"{name} was trained in {before}. That training isn't in this run's budget. "
                    f"{_FRESH}"
                )

    def _uncounted(self, hashes: Collection[str], plan: StepPlan) -> str | None:
        counted = plan.earlier.ids if plan.earlier is not None else frozenset()
        for run in finished_runs().find(hashes, strict=False):
            if run.run not in counted and run.run != self._own:
                return (
                    "Trainer.fit: expected weights that no private run has trained, got those of "
                    f"{run.run_dir}. Their training isn't in this run's budget. {_FRESH} Planning "
                    "knows them in files that torch.save or safetensors wrote."
                )
        return None


def _note(module: nn.Module, where: str) -> None:
    for parameter in module.parameters():
        if parameter.requires_grad:
            _TRAINED[parameter] = where


def _refuse_other_plans(plan: StepPlan, ranks: Ranks) -> None:
    """Refuse to train where processes have found different earlier runs, and so differ in plans."""
    if ranks.any(ranks.agree(plan.to_json()) != plan.to_json()):
        raise PrivacyRefusal(
            f"{finished_runs().path}: expected the same plan on every process, got others: some "
            "don't see the run directory or the file of finished runs. Put them where all do."
        )
