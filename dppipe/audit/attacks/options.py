"""What an attack is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from dppipe.audit.attacks.progress import Progress, Silent
from dppipe.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """The options of `dppipe attack` that its kinds share."""

    method: str | None = None
    """The method of the kind; None for the kind's default."""
    twin: Path | None = None
    """The run directory of a non-private twin; None to train one."""
    twin_epochs: float | None = None
    """How many epochs the twin trains; None for as many as the run did."""
    shadows: int | None = None
    """How many shadow models are trained; None for the method's default."""
    members: int = 1000
    """How many members are attacked at most, and as many non-members."""
    plugins: Path | None = None
    class_number: int | None = None
    """inversion: the class to invert; None for all."""
    prior: str | None = None
    """inversion: what the attacker expects of inputs; None for the method's default."""
    column: str | None = None
    """inversion: the unknown column of a table."""
    generator: str | None = None
    """inversion: the class path of the attacker's own generator."""
    record: int | None = None
    """gradients: the training record to attack; None for a made-up one."""
    steps: int | None = None
    """gradients: the steps of a search from each start; None for each method's default."""
    starts: int | None = None
    """gradients: from how many starts a search is made; None for the default."""
    progress: Progress = field(default_factory=Silent)


_OF_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "twin": ("--twin", ("membership", "inversion")),
    "twin_epochs": ("--twin-epochs", ("membership", "inversion")),
    "shadows": ("--shadows", ("membership",)),
    "members": ("--members", ("membership", "inversion")),
    "class_number": ("--class", ("inversion",)),
    "prior": ("--prior", ("inversion",)),
    "column": ("--column", ("inversion",)),
    "generator": ("--generator", ("inversion",)),
    "record": ("--record", ("gradients",)),
    "steps": ("--steps", ("gradients",)),
    "starts": ("--starts", ("gradients",)),
}
"""The options that only some kinds take: their name on the command line, and those kinds."""


def refuse_options(options: AttackOptions, *, kind: str) -> None:
    """Refuse what makes no sense for a kind, all at once, before anything is read."""
    faults = _of_other_kinds(options, kind)
    epochs = options.twin_epochs
    if epochs is not None and not (math.isfinite(epochs) and epochs > 0):
        faults.append(f"attack: --twin-epochs: expected a number > 0, got {epochs:g}.")
    if options.members < 1:
        faults.append(f"attack: --members: expected at least 1, got {options.members}.")
    shadows = options.shadows
    if shadows is not None and (shadows < 2 or shadows % 2):
        faults.append(
            f"attack: --shadows: expected an even number, at least 2, got {shadows}. They are "
            "trained in pairs, each on the half that the other leaves out."
        )
    if options.twin is not None and epochs is not None:
        faults.append(
            "attack: expected one of --twin and --twin-epochs, got both. The first names a "
            "finished run, the second says how long to train one."
        )
    for name, value in (("--steps", options.steps), ("--starts", options.starts)):
        if value is not None and value < 1:
            faults.append(f"attack: {name}: expected at least 1, got {value}.")
    if faults:
        raise UsageError("\n".join(faults))


def _of_other_kinds(options: AttackOptions, kind: str) -> list[str]:
    """Return what is wrong with options that another kind takes, and this one doesn't."""
    defaults = AttackOptions()
    faults = []
    for field_name, (option, kinds) in _OF_KINDS.items():
        is_given = getattr(options, field_name) != getattr(defaults, field_name)
        if is_given and kind not in kinds:
            others = " or ".join(kinds)
            faults.append(
                f"attack: {option}: expected only with --kind {others}, got --kind {kind}. "
                "Leave it out."
            )
    return faults
