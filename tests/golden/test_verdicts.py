"""Every verdict on sampler, relation, accountant, noise and schedule, word for word."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from dppipe.privacy.support import ACCOUNTANTS, SAMPLERS, verdict

FROZEN = Path(__file__).with_name("verdicts.json")
"""Each answer with the cases that get it."""
RELATIONS = ("zero_out", "add_remove", "replace_one")
MECHANISMS = ("gaussian", "laplace")
SCHEDULES = ("committed", "adaptive")


def all_verdicts() -> dict[str, list[str]]:
    """Return the cases of each answer, as the frozen file has them."""
    found: dict[str, dict[str, list[str]]] = {}
    for sampler, relation, mechanism, schedule, accountant in itertools.product(
        sorted(SAMPLERS), RELATIONS, MECHANISMS, SCHEDULES, ACCOUNTANTS
    ):
        answer = verdict(
            sampler=sampler,
            relation=relation,
            accountant=accountant,
            adaptive=schedule == "adaptive",
            mechanism=mechanism,
        )
        text = f"{answer.status}: {answer.why}"
        if answer.instead:
            text += f". Take {answer.instead}"
        case = f"{sampler} {relation} {mechanism} {schedule}"
        found.setdefault(text, {}).setdefault(case, []).append(accountant)
    grouped: dict[str, list[str]] = {}
    for text, cases in found.items():
        grouped[text] = [f"{case}: {', '.join(kinds)}" for case, kinds in cases.items()]
    return grouped


def test_every_verdict_is_what_it_was() -> None:
    assert all_verdicts() == json.loads(FROZEN.read_text(encoding="utf-8"))
