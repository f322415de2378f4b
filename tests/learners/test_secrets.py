"""No key or state of a generator leaves memory: not into a file of the run directory, a log, an output or an error's text."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import signal
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.randomness.keystream import Keystream
from dppipe.runs.record import RunRecord

CHANGES = [
    "train.steps=40",
    "train.checkpoint_every=5",
    "budget.epsilon=100",
    "noise.secure=true",
    "clipping={kind: adaptive}",
    "diagnostics=nonprivate",
]


def forms(secret: bytes) -> list[bytes]:
    """Return the ways in which these bytes could be written down."""
    number = [str(int.from_bytes(secret, order)).encode() for order in ("big", "little")]
    listed = [
        str(list(secret))[1:-1].encode(),
        bytes(str(tuple(secret))[1:-1].replace(" ", ""), "ascii"),
    ]
    encoded = []
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(
            3
        ):  # the text of the middle doesn't depend on what stands around, but on where it begins
            encoded.append(alphabet(bytes(shift) + secret)[4:-4])
    written = repr(secret)[2:-1].encode()
    return [
        secret,
        secret[::-1],
        secret.hex().encode(),
        secret.hex().upper().encode(),
        written,
        *number,
        *listed,
        *encoded,
    ]


def found_in(text: bytes, secrets: list[bytes]) -> list[int]:
    """Say which secrets stand in a text; eight bytes of one in a row are enough, but in numbers and lists only all."""
    pieces = [secret[start : start + 8] for secret in secrets for start in (0, 8, 16, 24)]
    whole = [
        number
        for number, secret in enumerate(secrets)
        if any(form in text for form in forms(secret))
    ]
    return whole + [
        number // 4
        for number, piece in enumerate(pieces)
        if any(form in text for form in forms(piece)[:5])
    ]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All keys that the operating system gives from now on."""
    given: list[bytes] = []
    random = os.urandom

    def remembered(size: int) -> bytes:
        if size != 32:
            return random(size)
        given.append(hashlib.sha256(b"a key of a test %d" % len(given)).digest())
        return given[-1]

    monkeypatch.setattr(os, "urandom", remembered)
    return given


def secrets_of(keys: list[bytes]) -> list[bytes]:
    """Return the keys and the first bytes that each gives: knowing those is as good as knowing the noise."""
    return [*keys, *(Keystream(key).bytes(32) for key in keys)]


def read_all(folder: Path) -> bytes:
    """Return the bytes of every file, and what its checkpoints hold as text."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    shown = [
        repr(torch.load(file, weights_only=True)).encode()
        for file in files
        if file.suffix == ".ckpt"
    ]
    return b"\n".join([*(str(file).encode() + file.read_bytes() for file in files), *shown])


@pytest.mark.parametrize("number", range(15))
def test_a_secret_that_is_written_down_is_found(number: int) -> None:
    secret = hashlib.sha256(b"planted").digest()
    assert found_in(b"some text " + forms(secret)[number] + b" and more", [secret])
    assert not found_in(
        b"some text " + forms(secret[::2] + secret[1::2])[number] + b" and more", [secret]
    )


def test_no_key_is_in_a_run_directory_or_a_log(
    run, keys: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    done = run(*CHANGES)
    assert done.exit_code == 0, done.output
    assert len(keys) >= 3  # sampler, noise and count
    text = read_all(done.path) + done.output.encode() + caplog.text.encode()
    assert found_in(text, secrets_of(keys)) == []


def test_no_key_is_left_by_a_run_that_was_interrupted_and_resumed(
    run, keys: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = RunRecord.step

    def then_interrupt(record: RunRecord, **facts: object) -> None:
        step(record, **facts)
        if record.ledger.rows == 12:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RunRecord, "step", then_interrupt)
    stopped = run(*CHANGES)
    assert stopped.exit_code == 130, stopped.output
    before = len(keys)
    resumed = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert resumed.exit_code == 0, resumed.output
    assert len(keys) >= 2 * before  # nothing was kept to be used again
    assert len(set(keys)) == len(keys)
    assert found_in(read_all(stopped.path) + resumed.output.encode(), secrets_of(keys)) == []


@pytest.mark.parametrize("debug", [True, False])
def test_no_key_is_in_the_text_of_an_error(
    run,
    tmp_path: Path,
    keys: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    debug: bool,
) -> None:
    def fail(record: RunRecord, **facts: object) -> None:
        raise RuntimeError("the record fails")

    monkeypatch.setattr(RunRecord, "step", fail)
    words = [
        "run",
        str(tmp_path / "spec.yaml"),
        "--run-dir",
        str(tmp_path / "failed"),
        *(["--debug"] if debug else []),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert ("Traceback" in done.output) == debug
    text = (
        done.output.encode() + "".join(capfd.readouterr()).encode() + read_all(tmp_path / "failed")
    )
    assert found_in(text, secrets_of(keys)) == []


def test_the_objects_of_a_run_do_not_show_their_keys(keys: list[bytes]) -> None:
    from dppipe.randomness.gaussian import GaussianStream
    from dppipe.randomness.keystream import Keystream
    from dppipe.randomness.streams import stream_key

    shown = repr(
        [
            Keystream(stream_key("sampler")),
            GaussianStream(stream_key("noise")),
            vars(GaussianStream(stream_key("count"))),
        ]
    )
    assert found_in(shown.encode(), secrets_of(keys)) == []
