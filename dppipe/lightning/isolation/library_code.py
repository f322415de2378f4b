"""Whose code a class is, by the start of its module's name: a library's, Lightning's or a user's.

The tuples differ on purpose. Each is used with `type(thing).__module__.startswith(...)`.
"""

from __future__ import annotations

_LIGHTNING = ("pytorch_lightning.", "lightning.")

FRAMEWORK = (*_LIGHTNING, "dppipe.")
"""Objects of these run the training. They are never copied, and never put back: they hold no state
of user code."""

NOT_SEARCHED = (
    *_LIGHTNING,
    *("dppipe.learners.", "dppipe.lightning.", "dppipe.runs.", "dppipe.pipeline."),
)
"""Objects of these aren't searched for what they hold: a Trainer leads to everything. Other objects
of dppipe are: its datasets and models may hold generators."""

OWN_LAYERS = ("torch.nn.", "dppipe.")
"""Modules of these write no attributes when they are evaluated, unless they have hooks."""

LIBRARIES = ("builtins", "torch", "pytorch_lightning", "lightning", "dppipe", "abc", "typing")
"""Base classes of these have no containers that user code changes. The names end without a dot, so
`torch` covers torchmetrics and torchvision, too."""
