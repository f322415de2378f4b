"""Names of metrics outside the Trainer: each name says where its value comes from.

`val/...` was computed on a public holdout and `nonprivate/val/...` on a private one. `public/...`
is a fact that no record has a part in, such as the learning rate. Whatever else is shown is named
`nonprivate/...`. Inside the Trainer metrics keep the names that the module gave them, so that
a callback finds `val_loss` where it always did. Read next: `provenance.py`, which does the naming.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import torch

Holdout = Literal["public", "private"]

NONPRIVATE = "nonprivate/"

_PREFIX = re.compile(r"(val|valid|validation)[/_]+(?=.)")


def validation_name(name: str, *, holdout: Holdout) -> str:
    """Return the name of a validation metric: `val_loss` becomes `val/loss`, marked if private."""
    named = f"val/{_PREFIX.sub('', name, count=1) if _PREFIX.match(name) else name}"
    return named if holdout == "public" else f"{NONPRIVATE}{named}"


def public_name(name: str) -> str:
    """Return the name of a fact that no record has a part in."""
    return f"public/{name}"


def unknown_name(name: str) -> str:
    """Return the name of a value of unknown origin, which may be computed from private records."""
    return name if name.startswith(NONPRIVATE) else f"{NONPRIVATE}{name}"


def learning_rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the learning rate of each parameter group: `public/lr`, or `public/lr/0` and so on.

    A rate that is kept on an accelerator is left out: reading it would make the step wait.
    """
    groups = optimizer.param_groups
    rates: dict[str, float] = {}
    for number, group in enumerate(groups):
        rate: Any = group["lr"]
        if isinstance(rate, torch.Tensor) and rate.device.type != "cpu":
            continue
        rates[public_name("lr" if len(groups) == 1 else f"lr/{number}")] = float(rate)
    return rates
