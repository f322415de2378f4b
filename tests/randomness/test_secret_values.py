"""Streams of exponential, Gumbel and spherical values: repeatable by key alone, and secret."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.exponential import ExponentialStream
from dppipe.randomness.gumbel import GumbelStream
from dppipe.randomness.spherical import SphericalStream

KEY = bytes(range(100, 132))
Stream = ExponentialStream | GumbelStream | SphericalStream
KINDS: list[type[Stream]] = [ExponentialStream, GumbelStream, SphericalStream]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_key_and_sizes_give_the_same_values(kind: type[Stream]) -> None:
    one, other = kind(KEY), kind(KEY)
    for size in (5, 1000, 0, 1):
        assert numpy.array_equal(one.draw(size), other.draw(size))


@pytest.mark.parametrize("kind", KINDS)
def test_other_keys_and_later_draws_give_other_values(kind: type[Stream]) -> None:
    """20,000 pairs of values, none of them equal. False alarms: below 1e-10."""
    stream = kind(KEY)
    first, second = stream.draw(100), stream.draw(100)
    other = kind(os.urandom(32)).draw(100)
    assert not numpy.isin(first, second).any()
    assert not numpy.isin(first, other).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("take", [pickle.dumps, copy.deepcopy])
def test_a_stream_cannot_be_copied(kind: type[Stream], take: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="can't be copied or pickled"):
        take(kind(KEY))


@pytest.mark.parametrize("kind", KINDS)
def test_neither_the_key_nor_a_value_is_shown(kind: type[Stream]) -> None:
    stream = kind(KEY)
    values = stream.draw(3)
    shown = repr(stream) + str(stream) + repr(vars(stream)) + repr(vars(stream._keystream))
    assert repr(stream) == f"{kind.__name__}(secret)"
    forms = [repr(KEY)[2:-1], KEY.hex(), str(list(KEY))[1:-1], *(f"{v:.4f}" for v in values)]
    assert not any(form in shown for form in forms)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_key_is_refused_and_not_shown(kind: type[Stream]) -> None:
    with pytest.raises(ValueError, match="32 bytes, got 31 bytes") as error:
        kind(KEY[:31])
    assert repr(KEY[:31])[2:-1] not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_is_refused(kind: type[Stream], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = kind(KEY)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(PrivacyRefusal, match="fork"):
        stream.draw(3)
