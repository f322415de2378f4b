"""What a learner is: how records become a model, as releases through a gate.

A learner has two halves. `releases` lists what it will release, before a record is read; `fit`
computes, and hands bounded values to the gate. It never sees the ledger, a key or the noise.
DP-SGD is the default (`dp_sgd.py`); its loop is Lightning's. Files of learners load without torch.
Read next: `gate.py`, then `job.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dppipe.component import Component
from dppipe.privacy.release import PublicFacts, Release

if TYPE_CHECKING:
    from torch import nn

    from dppipe.data.base import Data
    from dppipe.learners.job import Job
    from dppipe.models.base import Model, Pretrained

__all__ = ["Learner", "PublicFacts", "Release"]


class Learner(Component):
    """How records become a model.

    Guarantees:
    - Whatever a learner releases goes through the gate, and is charged before it is seen.
    - A plugin's values are bounded by the gate, one unit at a time; it is not believed.

    Example:
        >>> from dppipe import Learner, Release
        >>> from dppipe.privacy.events.mechanisms import gaussian
        >>> class Count(Learner, kind="count"):
        ...     def releases(self, facts, *, scale):
        ...         return [Release(what="count", event=gaussian(scale))]
        >>> Count().releases(None, scale=2.0)[0].event.noise_multiplier
        2.0
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    """The blocks of a spec that it uses, of those that only some learners need (`model`, `sampler`,
    `train`, ...); any other one beside it is an error."""
    scale_option: ClassVar[str] = "noise_multiplier"
    """The option that sets the noise: a number, or `auto`."""

    @property
    def public_data(self) -> Data | None:
        """The data of public inputs that the learner is given as `job.public`; None for none."""
        return None

    @property
    def own_model(self) -> Model | None:
        """The model block that stands inside the learner's own; None where it has none."""
        return None

    @property
    def scale(self) -> float | None:
        """The noise that is set; None to find the one that lands on the budget."""
        chosen = getattr(self, self.scale_option, "auto")
        return None if chosen == "auto" else float(chosen)

    def set_scale(self, scale: float) -> tuple[str, float]:
        """Return the option that sets the noise to this scale, and its value."""
        return self.scale_option, scale

    @property
    def weight_files(self) -> tuple[Pretrained, ...]:
        """The files of weights that it reads: the plan counts the private runs behind them."""
        return ()

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return all that the learner releases, in order, at the noise multiplier `scale`."""
        raise self.unwritten("releases(facts, *, scale)")

    def module(self, facts: PublicFacts) -> nn.Module:
        """Return the untrained module that `fit` trains, where no `model` block names one."""
        raise self.unwritten("module(facts)")

    def problems(self, facts: PublicFacts) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield each option of the spec that the learner can't work with, and why.

        An option is its place in the spec, such as `("learner", "loss")`.
        """
        yield from ()

    def model_problems(self, model: Model) -> Iterator[tuple[str, str]]:
        """Yield each option of the `model` block that the learner can't train, with a message.

        This is what can be said before anything is built: `prepare` looks at the network itself.
        """
        yield from ()

    def prepare(self, network: nn.Module, facts: PublicFacts) -> nn.Module:
        """Return the `model` block's network as `fit` trains it, and as it predicts afterwards.

        Names and shapes of its tensors stay as they are. A network that can't be trained is
        refused here, before anything is charged.
        """
        return network

    def fit(self, job: Job, gate: Any) -> nn.Module:
        """Return the trained module: `job.module`, with the weights that were learned.

        Args:
            job: What is known of the run, and its records.
            gate: A `Gate`; a `PluginGate`, with fewer methods, where the learner is a plugin; a
                `PlainGate`, which adds no noise, in a run without a budget.
        """
        raise self.unwritten("fit(job, gate)")
