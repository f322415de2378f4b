"""Layer rules: one file for each kind of layer, all listed here.

`base` is the contract; read `linear` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dppipe.engine.rules import (
    attention,
    broadcast,
    conv,
    embedding,
    embedding_bag,
    group_norm,
    gru,
    layer_norm,
    linear,
    lstm,
    matmul,
    prelu,
    rms_norm,
)
from dppipe.engine.rules.base import Rule

__all__ = ["RULES", "RULE_OF"]

RULES: tuple[Rule, ...] = (
    linear.RULE,
    matmul.RULE,
    conv.RULE,
    conv.TRANSPOSED,
    embedding.RULE,
    embedding_bag.RULE,
    layer_norm.RULE,
    rms_norm.RULE,
    group_norm.RULE,
    group_norm.INSTANCE,
    attention.RULE,
    lstm.RULE,
    gru.RULE,
    prelu.RULE,
    broadcast.RULE,
)

RULE_OF: dict[Callable[..., Any], Rule] = {}
"""The rule that answers each torch function."""
for _rule in RULES:
    RULE_OF |= dict.fromkeys(_rule.functions, _rule)
