"""Targets that a search may vary: soft classes, or numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from dppipe.audit.attacks.gradients.knowledge import Knowledge


def free_target(known: Knowledge, generator: torch.Generator) -> Tensor | None:
    """Return a variable that stands for the target; None where the attacker knows the target."""
    if known.known_target is not None:
        return None
    return torch.randn(1, known.outputs, generator=generator).requires_grad_()


def target_of(known: Knowledge, free: Tensor | None) -> Tensor:
    """Return the target that a variable stands for, as the task's loss takes it."""
    if known.known_target is not None:
        return known.known_target
    if free is None:
        raise ValueError("expected a target that is known or free, got neither")
    if known.task == "multiclass":
        return free.softmax(1)
    return free.sigmoid().flatten() if known.task == "binary" else free


def hard_target(known: Knowledge, target: Tensor) -> Tensor:
    """Return the likeliest class of a soft one; numbers stay as they are."""
    if known.task == "multiclass" and target.dim() == 2:
        return target.argmax(1)
    if known.task == "binary":
        return (target > 0.5).to(target.dtype)
    return target
