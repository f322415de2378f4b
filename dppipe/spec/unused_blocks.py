"""Blocks of a spec that its learner doesn't take.

DP-SGD takes all of them. Another learner names those that it uses; any other one is an error at its
own line. Inside, a block that isn't taken holds a placeholder, which nothing reads and which the
effective spec leaves out.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from dppipe.errors import UsageError
from dppipe.spec.kinds.registry import Registry

LEARNER_BLOCKS = frozenset({"model", "optimizer", "sampler", "clipping", "noise", "train"})
"""The blocks that a learner may take or not."""
_PLACEHOLDERS: dict[str, Any] = {
    "model": {"kind": "logistic"},
    "sampler": {"kind": "full_batch"},
    "train": {"steps": 1},
}


def fill_unused_blocks(data: Any, *, registry: Any) -> Any:
    """Refuse blocks that the learner doesn't take, and put placeholders in their place."""
    if not isinstance(data, dict):
        return data
    kind = _kind(data.get("learner", "dp_sgd"))
    if kind == "dp_sgd":
        return data
    if kind is None:
        # Reading the block says that it names no kind; what it would take isn't known.
        return _PLACEHOLDERS | data
    known = registry if isinstance(registry, Registry) else Registry()
    try:
        takes = getattr(known.load("learner", kind), "takes", LEARNER_BLOCKS)
    except UsageError:
        # Reading the block says what is wrong with its kind; nothing else is known to be missing.
        return _PLACEHOLDERS | data
    unused = LEARNER_BLOCKS - takes
    _refuse_given(data, unused, kind=kind)
    placeholders = {block: _PLACEHOLDERS[block] for block in unused if block in _PLACEHOLDERS}
    return data | placeholders


def _kind(learner: Any) -> str | None:
    found = learner.get("kind") if isinstance(learner, dict) else learner
    return found if isinstance(found, str) else getattr(learner, "kind", None)


def _refuse_given(data: dict[str, Any], unused: frozenset[str], *, kind: str) -> None:
    problems = []
    for block in sorted(unused & set(data)):
        text = f"expected no {block}, as learner {kind!r} takes none. Remove the block."
        error = PydanticCustomError("dppipe", "{text}", {"text": text})
        problems.append(InitErrorDetails(type=error, loc=(block,), input=data[block]))
    if problems:
        raise ValidationError.from_exception_data("Spec", problems)
