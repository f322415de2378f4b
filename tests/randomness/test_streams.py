"""Secret streams: fresh from the system's entropy, apart from each other, and repeatable only where
a seed says so.
"""

from __future__ import annotations

import copy
import os
import pickle
from typing import get_args

import numpy
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.keystream import SLACK, Keystream
from dppipe.randomness.streams import Purpose, stream_key


def test_keys_are_fresh_unless_a_seed_is_given() -> None:
    assert stream_key("noise") != stream_key("noise")
    assert stream_key("noise", seed=7) == stream_key("noise", seed=7)
    assert stream_key("noise", seed=7) != stream_key("noise", seed=8)


def test_purposes_have_streams_of_their_own() -> None:
    purposes = get_args(Purpose)
    assert {"sampler", "noise", "count", "selection"} <= set(purposes)
    assert len({stream_key(purpose, seed=7) for purpose in purposes}) == len(purposes)


def test_a_stream_is_the_keystream_of_aes_256_in_counter_mode() -> None:
    key = os.urandom(32)
    expected = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(100))
    assert Keystream(key).bytes(100) == expected


def test_reading_goes_on_where_it_ended_however_it_is_done() -> None:
    key, size = os.urandom(32), (1 << 20) + 12345
    whole = Keystream(key).bytes(size + 30)
    stream, room = Keystream(key), numpy.zeros(size + SLACK, numpy.uint8)
    assert stream.bytes(7) == whole[:7]
    stream.read_into(room, size)
    assert room[:size].tobytes() == whole[7 : size + 7]
    assert stream.bytes(0) == b""
    assert stream.bytes(23) == whole[size + 7 :]


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_cannot_be_copied(take: object) -> None:
    with pytest.raises(TypeError, match="can't be copied or pickled"):
        take(Keystream(bytes(32)))  # type: ignore[operator]


def test_a_stream_is_refused_in_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Keystream(bytes(32))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(PrivacyRefusal, match="fork"):
        stream.bytes(1)
    with pytest.raises(PrivacyRefusal, match="fork"):
        stream.read_into(numpy.zeros(99, numpy.uint8), 1)
