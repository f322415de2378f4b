"""What a sampler draws: single records, or users with a stated number of their records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dppipe
from dppipe.sampling import Poisson, User
from dppipe.spec.kinds.registry import Registry

PACKAGE = Path(dppipe.__file__).parent
ASKS_FOR_THE_CLASS = re.compile(
    r"isinstance\([^)]*\bUser\b|sampler\.kind [!=]= \"user\"|sampler [!=]= \"user\""
)


def test_a_user_sampler_states_how_many_records_of_a_user_a_step_uses() -> None:
    assert User(sample_rate=0.1, max_records_per_user=7).records_per_user == 7
    assert Poisson(sample_rate=0.1).records_per_user is None


@pytest.mark.parametrize("kind", Registry().kinds("sampler"))
def test_a_sampler_of_users_limits_their_records_and_no_other_does(kind: str) -> None:
    made = Registry().load("sampler", kind).model_construct(max_records_per_user=5)
    assert isinstance(made, dppipe.sampling.Sampler)
    assert made.needs_users == (kind == "user")


def test_no_other_package_asks_a_sampler_for_its_class() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "sampling" and ASKS_FOR_THE_CLASS.search(path.read_text()):
            found.append(str(path.relative_to(PACKAGE)))
    assert found == []
