"""Output of user code in a private step is dropped, whichever way it is written."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable

import pytest

from dppipe.learners.records.silenced_output import silenced

WAYS: dict[str, Callable[[], object]] = {
    "print": lambda: print("secret"),
    "standard error": lambda: sys.stderr.write("secret"),
    "bytes": lambda: sys.stdout.buffer.write(b"secret"),
    "bytes of standard error": lambda: sys.stderr.buffer.write(b"secret"),
    "lines": lambda: sys.stdout.writelines(["secret", "secret"]),
    "lines of bytes": lambda: sys.stdout.buffer.writelines([b"secret"]),
    "a log": lambda: logging.getLogger("mine").error("secret"),
    "a warning": lambda: warnings.warn("secret", stacklevel=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_user_code_writes_in_the_block_is_dropped(
    way: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with silenced():
        WAYS[way]()
        sys.stdout.flush()
        sys.stdout.buffer.flush()
    seen = capfd.readouterr()
    assert "secret" not in seen.out + seen.err + caplog.text


@pytest.mark.parametrize("stream", ["text", "bytes"])
def test_another_thread_writes_on(stream: str, capfd: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        if stream == "text":
            target.write("progress")
        else:
            target.buffer.write(b"progress")

    with silenced():
        target = sys.stdout
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    sys.stdout.flush()
    assert "progress" in capfd.readouterr().out
