"""The component families: which block of a spec names them, and where their kinds come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """One family of components."""

    block: str
    """The block of the spec that names one: `clipping`."""
    noun: str
    """What one is called in a message: `clipper`."""
    package: str
    """Where the built-in kinds stand, one a file: `dppipe.clipping`."""
    base: str
    """The name of the base class: `Clipper`."""
    group: str | None = None
    """The entry point group by which installed packages offer kinds."""
    takes_plugins: bool = True
    """Whether kinds may come from outside: samplers and accountants claim proofs that the core
    can't check.
    """

    @property
    def one(self) -> str:
        """The noun with its article: `an accountant`."""
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"


FAMILIES = {
    family.block: family
    for family in (
        Family("data", "data kind", "dppipe.data", "Data", "dppipe.data"),
        Family("model", "model", "dppipe.models", "Model", "dppipe.models"),
        Family("optimizer", "optimizer", "dppipe.optim", "Optimizer", "dppipe.optimizers"),
        Family("schedule", "schedule", "dppipe.optim.schedules", "LRSchedule"),
        Family("averaging", "way of averaging", "dppipe.optim.averaging", "Averaging"),
        Family("loss", "loss", "dppipe.losses", "Loss"),
        Family("sampler", "sampler", "dppipe.sampling", "Sampler", takes_plugins=False),
        Family("clipping", "clipper", "dppipe.clipping", "Clipper", "dppipe.clippers"),
        Family(
            "noise", "noise schedule", "dppipe.noise", "NoiseSchedule", "dppipe.noise_schedules"
        ),
        Family("learner", "learner", "dppipe.learners", "Learner", "dppipe.learners"),
        Family(
            "accountant",
            "accountant",
            "dppipe.privacy.accountants",
            "Accountant",
            takes_plugins=False,
        ),
    )
}
"""Every family by its block; `schedule`, `averaging` and `loss` stand inside others."""
