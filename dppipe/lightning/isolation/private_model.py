"""The user's module as the private step sees it: a replica with secret randomness and no output.

Read next: `replica.py`, then `networks.py`, and `dppipe/learners/sgd/step.py`, which asks the
engine for clipped sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from dppipe.engine import Engine
from dppipe.engine.losses import SingletonLoss
from dppipe.errors import PrivacyRefusal
from dppipe.learners.records.physical_batch_size import choose_physical_batch_size
from dppipe.learners.records.silenced_output import silenced
from dppipe.lightning.isolation.own_generators import find_generators, secretly_seeded
from dppipe.lightning.isolation.rehearsal import CHECKED_EXAMPLES, naming_mistakes, rehearse
from dppipe.lightning.isolation.replica import Replica
from dppipe.lightning.metrics.baseline_logs import StepLogs
from dppipe.lightning.module import SpecModule
from dppipe.lightning.networks import from_clean_state, network_and_loss, run_on_example
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.model_randomness import ModelRandomness
from dppipe.randomness.streams import stream_key

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.learners.records.loader import PrivateLoader
    from dppipe.lightning.isolation.holdout import PrivateHoldout
    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.planning.step_plan import StepPlan

Place = Callable[[Any], Any]
"""Moves a batch to the training device."""


class PrivateModel:
    """A module under training.

    Guarantee: while records are evaluated, the module itself is only read, in its trainable
    parameters. What hooks, validation and checkpoints see of it depends on released values alone.
    """

    def __init__(
        self,
        module: pl.LightningModule,
        parts: PrivateParts,
        *,
        trainer: pl.Trainer,
        loader: PrivateLoader,
        seed: int | None,
    ) -> None:
        network, loss = network_and_loss(module)
        self.network = network
        self.loss = loss
        self.independence: str | None = None
        """Why rows don't see each other: "checked" or "by construction"; known once rehearsed."""
        self._prefix = "network." if isinstance(module, SpecModule) else ""
        self._replica = Replica(network, trainer=trainer)
        self._frozen: list[tuple[str, nn.Parameter]] = []
        for name, parameter in network.named_parameters():
            if not parameter.requires_grad:
                self._frozen.append((name, parameter))
        self._row: Any = None
        order: Literal[1, 2] = 1 if parts.noise.mechanism == "laplace" else 2
        evaluated = from_clean_state(loss, self._replica)
        self.engine = Engine(self._replica.module, evaluated, parts.clipping, order=order)
        own_seed = None if seed is None else seed + trainer.global_rank
        stream = Keystream(stream_key("model", seed=own_seed))
        device = next(iter(self.engine.parameters.values()), torch.zeros(())).device
        self._own_code = self._replica.has_own_code or not loader.in_memory
        self._randomness = ModelRandomness(stream, device=device, own_code=self._own_code)
        self._reading = (loader.dataset, loader.reader.collate)

    def rehearse(
        self, loader: PrivateLoader, plan: StepPlan, *, place: Place, holdout: PrivateHoldout | None
    ) -> None:
        """Try the module on made-up rows, and choose how many records are evaluated at once."""
        self._replica.follow()
        with self._randomness.secret(), secretly_seeded(self._generators()):
            batch = place(loader.synthetic(CHECKED_EXAMPLES))
            report = rehearse(self.engine, batch)
            self.independence = report.independence
            if isinstance(self.loss, SingletonLoss) or self._replica.written:
                self._row = place(loader.synthetic(1))
            if holdout is not None and not self._prefix:
                self._replica.restore()
                holdout.rehearse(self._replica.module)
            with naming_mistakes(batch):
                size = choose_physical_batch_size(self.engine, loader, plan, place=place)
            loader.physical_batch_size = size
            row = loader.like_a_record()
            if row is not None:
                with naming_mistakes(row):
                    self.engine.gradients_of([place(row)])

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Keep what happens in the block from the module, the console and public randomness."""
        self._refuse_unfrozen()
        if not self._own_code:
            with self._randomness.secret():
                yield
            return
        self._replica.follow()
        generators = self._generators()
        with (
            self._randomness.secret(),
            silenced(),
            secretly_seeded(generators),
            self._replica.guarded(),
        ):
            yield

    def _generators(self) -> list[Any]:
        """Return the replica's and the dataset's generators; reading a record may make one."""
        return [*self._replica.generators, *find_generators(*self._reading)]

    def _refuse_unfrozen(self) -> None:
        """Refuse parameters that were frozen when training began and aren't any more.

        Nothing would train them.
        """
        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise PrivacyRefusal(
                    f"{self._prefix}{name}: expected to stay frozen, as it was when training "
                    "began, got requires_grad=True. Private gradients are computed for what is "
                    "trainable at the start. Make it trainable before fit, with a learning rate "
                    "of 0 until it is to be trained."
                )

    def show_made_up_example(self) -> None:
        """Evaluate the user's module on a made-up example, if its code keeps what it sees."""
        if self._row is not None:
            with self._randomness.secret(), self._replica.guarded():
                run_on_example(self.network, self.loss, self._row)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the trained parameters, with buffers and frozen parameters as at the start."""
        return self.network.state_dict() | self._replica.start

    def clean(self, state: dict[str, Any]) -> None:
        """Put buffers and frozen parameters of the start into a Lightning module's state dict."""
        for name, value in self._replica.start.items():
            state[f"{self._prefix}{name}"] = value


class PlainModel:
    """A module that is trained without a budget: nothing has to be isolated."""

    def __init__(self, module: pl.LightningModule, parts: PrivateParts) -> None:
        self.network: nn.Module
        self.network, self.loss = network_and_loss(module)
        self.engine = Engine(self.network, self.loss, parts.clipping)
        self.independence: str | None = None
        self._logs = StepLogs(module)

    def rehearse(
        self, loader: PrivateLoader, plan: StepPlan, *, place: Place, holdout: PrivateHoldout | None
    ) -> None:
        """Choose how many records are evaluated at once."""
        size = choose_physical_batch_size(self.engine, loader, plan, place=place)
        loader.physical_batch_size = size

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Log the mean of what the module logs on the examples of a step."""
        with self._logs.averaged():
            yield

    def show_made_up_example(self) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return the module's state as it is."""
        return self.network.state_dict()

    def clean(self, state: dict[str, Any]) -> None:
        """Do nothing."""
