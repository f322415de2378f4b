"""The ledger is durable before release and has one writer.

Every changed byte is found, and a torn line is never dropped.
"""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dp_accounting
import pytest
from hypothesis import given
from hypothesis import strategies as st
from private_steps import altered, step_charge

import dppipe
from dppipe.errors import DppipeError, PrivacyRefusal, UsageError
from dppipe.privacy.ledger_reading import LedgerCorrupt, read_ledger, read_rows
from dppipe.privacy.ledger_rows import decode_row, digest, encode_row
from dppipe.runs.ledger import Charge, Ledger

FIELDS = (
    "row",
    "version",
    "step",
    "event",
    "mechanism",
    "sampler",
    "sample_rate",
    "noise_multiplier",
    "max_grad_norm",
    "relation",
    "unit",
    "count",
    "epsilon",
    "prev",
    "hash",
)
PLAN = b'{"a plan": 1}\n'
EVENT = dp_accounting.PoissonSampledDpEvent(0.14, dp_accounting.GaussianDpEvent(1.1))
PLACES = (Path(dppipe.__file__).parents[1], Path(__file__).parents[1])
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PLACES))}


def a_charge(step: int = 1, **changes: object) -> Charge:
    charge = step_charge(
        step=step,
        event=EVENT,
        mechanism="gaussian",
        sampler="poisson",
        sample_rate=0.14,
        noise_multiplier=1.1,
        max_grad_norm=1.0,
        relation="zero_out",
        unit="example",
        count=1,
        epsilon=0.1 * step,
    )
    return altered(charge, **changes)


def a_ledger(path: Path, *, rows: int = 3) -> Path:
    with Ledger.create(path, plan=PLAN) as ledger:
        for step in range(1, rows + 1):
            ledger.charge(a_charge(step))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_rows_hold_the_fields_in_order_and_each_names_the_one_before(path: Path) -> None:
    lines = a_ledger(path).read_bytes().splitlines()
    before = hashlib.sha256(PLAN).hexdigest()
    for number, line in enumerate(lines, start=1):
        row = json.loads(line)
        assert tuple(row) == FIELDS
        assert (row["row"], row["step"], row["prev"]) == (number, number, before)
        claimed = row.pop("hash")
        assert (
            claimed == hashlib.sha256(json.dumps(row, separators=(",", ":")).encode()).hexdigest()
        )
        before = hashlib.sha256(line).hexdigest()


def test_head_and_rows_follow_every_charge_and_survive_reopening(path: Path) -> None:
    with Ledger.create(path, plan=PLAN) as ledger:
        assert (ledger.head, ledger.rows) == (digest(PLAN), 0)
        ledger.charge(a_charge(1))
        seen = ledger.head, ledger.rows
        ledger.charge(a_charge(2))
        assert ledger.head == digest(path.read_bytes().splitlines()[-1])
        head = ledger.head
    with Ledger.open(path, plan=PLAN, seen=seen) as again:
        assert (again.head, again.rows, again.torn) == (head, 2, b"")
        again.charge(a_charge(3))
    assert read_ledger(path, plan=PLAN).rows == 3


positive = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)


@given(
    rate=st.floats(min_value=1e-300, max_value=1),
    noise=positive,
    bound=positive,
    epsilon=positive,
    unit=st.text(max_size=20),
)
def test_every_finite_float_and_text_comes_back_exactly(
    rate: float, noise: float, bound: float, epsilon: float, unit: str
) -> None:
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    numbers = {
        "sample_rate": rate,
        "noise_multiplier": noise,
        "max_grad_norm": bound,
        "epsilon": epsilon,
    }
    charge = a_charge(event=event, unit=unit, **numbers)
    line = encode_row(charge, row=7, prev="ab")
    assert decode_row(line, row=7, prev="ab") == charge


@pytest.mark.parametrize(
    "name", ["sample_rate", "noise_multiplier", "max_grad_norm", "epsilon", "step", "count"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, True, "1"])
def test_a_charge_with_a_senseless_number_is_refused_and_nothing_is_written(
    path: Path, name: str, value: object
) -> None:
    with Ledger.create(path, plan=PLAN) as ledger:
        with pytest.raises(PrivacyRefusal, match=name):
            ledger.charge(altered(a_charge(), **{name: value}))
        ledger.charge(a_charge())
    assert read_ledger(path, plan=PLAN).rows == 1


def test_epsilon_never_goes_down(path: Path) -> None:
    a_ledger(path)
    with (
        Ledger.open(path, plan=PLAN) as ledger,
        pytest.raises(PrivacyRefusal, match="already charged"),
    ):
        ledger.charge(a_charge(4, epsilon=0.2))


def test_every_change_of_a_single_byte_is_found(path: Path) -> None:
    whole = a_ledger(path).read_bytes()
    lines = whole.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    for position in range(len(whole)):
        for flip in (
            0x01,
            0x02,
            0x10,
            0x20,
            0x80,
            whole[position] ^ 0x0A,
            whole[position] ^ 0x20,
            whole[position] ^ 0x22,
        ):
            if flip == 0:
                continue
            changed = bytearray(whole)
            changed[position] ^= flip
            with pytest.raises(LedgerCorrupt) as caught:
                read_rows(io.BytesIO(changed), place=path, plan=PLAN)
            line = max(number for number, start in enumerate(starts, start=1) if start <= position)
            assert f"{path}:{line}:" in str(caught.value)


def test_every_other_value_of_every_byte_is_found(path: Path) -> None:
    whole = a_ledger(path, rows=1).read_bytes()
    for position, value in itertools.product(range(len(whole)), range(256)):
        changed = whole[:position] + bytes([value]) + whole[position + 1 :]
        if changed != whole:
            with pytest.raises(LedgerCorrupt):
                read_rows(io.BytesIO(changed), place=path, plan=PLAN)


def test_every_byte_put_in_or_taken_out_is_found(path: Path) -> None:
    whole = a_ledger(path, rows=2).read_bytes()
    for position in range(len(whole) + 1):
        shorter = whole[:position] + whole[position + 1 :]
        for changed in [
            whole[:position] + extra + whole[position:] for extra in (b" ", b"\n", b"{", b"0")
        ] + [shorter]:
            if changed == whole:
                continue
            try:
                found = read_rows(io.BytesIO(changed), place=path, plan=PLAN)
            except LedgerCorrupt:
                continue
            # Only what a crash can leave behind is no corruption, and it is seen: a last line
            # without its end.
            assert not found.ended
            assert len(changed) == len(whole) + (1 if found.torn else -1)


def test_a_whole_row_taken_out_or_moved_is_found(path: Path) -> None:
    first, second, third = a_ledger(path).read_bytes().splitlines(keepends=True)
    for lines in (
        [second, third],
        [first, third],
        [second, first, third],
        [first, first, second, third],
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(LedgerCorrupt):
            read_ledger(path, plan=PLAN)


def test_last_rows_taken_out_are_found_by_what_the_checkpoint_has_seen(path: Path) -> None:
    found = read_ledger(a_ledger(path), plan=PLAN)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        Ledger.open(path, plan=PLAN, seen=(found.head, found.rows))
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        Ledger.open(path, plan=PLAN, seen=(found.head, 2))
    Ledger.open(path, plan=PLAN, seen=(found.heads[2], 2)).close()


def test_a_ledger_of_another_plan_is_refused(path: Path) -> None:
    with pytest.raises(LedgerCorrupt, match=":1:"):
        Ledger.open(a_ledger(path), plan=b"{}")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"[" * 60_000,
        b'{"event":[]}',
        b"\xff\xfe",
        b"9" * 60_000,
        b'{"row":1,"step":' + b"1" * 60_000,
    ],
)
def test_what_is_no_row_is_refused_whatever_it_is(path: Path, line: bytes) -> None:
    path.write_bytes(line + b"\n")
    with pytest.raises(LedgerCorrupt, match=":1:"):
        read_ledger(path, plan=PLAN)


def test_a_row_with_an_event_that_no_one_charges_is_refused(path: Path) -> None:
    line = encode_row(a_charge(), row=1, prev=digest(PLAN), event={"type": "NonPrivateDpEvent"})
    path.write_bytes(line + b"\n")
    with pytest.raises(LedgerCorrupt):
        read_ledger(path, plan=PLAN)


def test_a_last_line_torn_at_any_byte_stays_charged(path: Path) -> None:
    whole = a_ledger(path).read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start + 1, len(whole)):
        path.write_bytes(whole[:end])
        with Ledger.open(path, plan=PLAN) as ledger:
            if end == len(whole) - 1:  # only the newline was lost: the row is whole
                assert (ledger.rows, ledger.torn) == (3, b"")
            else:
                assert (ledger.rows, ledger.torn) == (2, whole[start:end])
                with pytest.raises(DppipeError, match="torn"):
                    ledger.charge(a_charge(3))
                ledger.close_torn(a_charge(3, noise_multiplier=0.5))
            ledger.charge(a_charge(4))
        found = read_ledger(path, plan=PLAN)
        assert [charge.step for charge in found.charges] == [1, 2, 3, 4]
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert rows[2].get("torn", whole[start:end].decode()) == whole[start:end].decode()
        assert [row["row"] for row in rows] == [1, 2, 3, 4]


def test_closing_a_torn_line_can_be_cut_off_anywhere(path: Path) -> None:
    whole = a_ledger(path).read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    torn = whole[: start + 150]
    path.write_bytes(torn)
    with Ledger.open(path, plan=PLAN) as ledger:
        ledger.close_torn(a_charge(3))
    closed = path.read_bytes()
    for end in range(start, len(closed)):
        path.write_bytes(closed[:end] + torn[end:])
        with Ledger.open(path, plan=PLAN) as ledger:
            if ledger.torn:
                ledger.close_torn(a_charge(3))
            assert ledger.rows == 3
        assert read_ledger(path, plan=PLAN).ended


def test_rows_that_have_run_into_one_are_never_taken_for_one_torn_row(path: Path) -> None:
    whole = a_ledger(path).read_bytes()
    first = whole.index(b"\n")
    for changed in (
        whole[:first] + whole[first + 1 : -1],
        whole[: first - 40] + whole[first + 1 : -20],
        whole[:first] + b"\0" * 500,
    ):
        path.write_bytes(changed)
        with pytest.raises(LedgerCorrupt):
            Ledger.open(path, plan=PLAN)


def test_an_existing_ledger_is_not_started_again(path: Path) -> None:
    a_ledger(path)
    with pytest.raises(PrivacyRefusal, match="expected no ledger") as caught:
        Ledger.create(path, plan=PLAN)
    assert caught.value.exit_code == 3


def test_a_ledger_behind_a_symbolic_link_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(a_ledger(path))
    with pytest.raises(UsageError):
        Ledger.open(link, plan=PLAN)
    link.unlink()
    link.symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(PrivacyRefusal):
        Ledger.create(link, plan=PLAN)


def test_a_missing_ledger_or_directory_is_named(path: Path) -> None:
    with pytest.raises(UsageError, match=r"ledger\.jsonl"):
        Ledger.open(path, plan=PLAN)
    with pytest.raises(UsageError, match="missing"):
        Ledger.create(path.parent / "missing" / "ledger.jsonl", plan=PLAN)


def test_a_second_writer_is_refused_and_told_who_holds_the_ledger(path: Path) -> None:
    a_ledger(path)
    with (
        Ledger.open(path, plan=PLAN),
        pytest.raises(PrivacyRefusal, match=f"process {os.getpid()}"),
    ):
        Ledger.open(path, plan=PLAN)
    Ledger.open(path, plan=PLAN).close()


@pytest.mark.parametrize(
    "change", [lambda rows: rows[:-1], lambda rows: [*rows, rows[-1]], lambda rows: []]
)
def test_a_ledger_that_changes_under_its_writer_takes_no_more_charges(
    path: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    """As by a second writer on a file system whose locks don't hold between machines."""
    with Ledger.create(path, plan=PLAN) as ledger:
        for step in (1, 2, 3):
            ledger.charge(a_charge(step))
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
        before = path.read_bytes()
        for _ in range(2):
            with pytest.raises(DppipeError):
                ledger.charge(a_charge(4))
        assert path.read_bytes() == before


def test_a_forked_worker_holds_neither_the_lock_nor_a_way_to_charge(path: Path) -> None:
    ledger = Ledger.create(path, plan=PLAN)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(a_charge())
            os.write(writer, b"charged")
        except DppipeError:
            os.write(writer, b"refused")
        time.sleep(30)
        os._exit(0)
    try:
        assert os.read(reader, 100) == b"refused"
        ledger.close()
        Ledger.open(path, plan=PLAN).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


class Disk:
    """Stands in for `os.write`: takes so many bytes, then fails."""

    def __init__(self, room: int, *, error: int = errno.ENOSPC) -> None:
        self.room, self.error, self.write = room, error, os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(self.error, os.strerror(self.error))
        written = self.write(fd, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 100, 460])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_failing_disk_releases_nothing_and_ends_the_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch, room: int, error: int
) -> None:
    ledger = Ledger.create(path, plan=PLAN)
    ledger.charge(a_charge(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", Disk(room, error=error))
        with pytest.raises(DppipeError, match="Nothing was released"):
            ledger.charge(a_charge(2))
    with pytest.raises(DppipeError):
        ledger.charge(a_charge(2))  # there is room again, but half a row may stand there
    ledger.close()
    with Ledger.open(path, plan=PLAN) as again:
        if again.torn:
            again.close_torn(a_charge(2))
        assert again.rows == (2 if room else 1)
        again.charge(a_charge(3))
    assert read_ledger(path, plan=PLAN).ended


def test_short_writes_are_completed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with Ledger.create(path, plan=PLAN) as ledger:
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:50]))
        ledger.charge(a_charge(1))
        ledger.charge(a_charge(2))
    assert read_ledger(path, plan=PLAN).rows == 2


def test_an_interrupt_inside_a_write_ends_the_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(fd: int, data: bytes) -> int:
        raise KeyboardInterrupt

    with Ledger.create(path, plan=PLAN) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", interrupt)
            with pytest.raises(KeyboardInterrupt):
                ledger.charge(a_charge(1))
        with pytest.raises(DppipeError):
            ledger.charge(a_charge(1))


def test_a_closed_ledger_takes_no_charge(path: Path) -> None:
    ledger = Ledger.create(path, plan=PLAN)
    ledger.close()
    ledger.close()
    with pytest.raises(DppipeError, match="closed"):
        ledger.charge(a_charge())


CHARGE_UNTIL_KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_ledger import PLAN, Ledger, a_charge
released = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
open_or_create = Ledger.open if os.path.exists(sys.argv[2]) else Ledger.create
with open_or_create(sys.argv[2], plan=PLAN) as ledger:
    if ledger.torn:
        ledger.close_torn(a_charge(ledger.rows + 1))
    while True:
        ledger.charge(a_charge(ledger.rows + 1))
        os.write(released, b"%d\\n" % ledger.rows)
"""


def charge_in_a_process(
    path: Path, released: Path, *, limit: int | None = None
) -> subprocess.Popen[bytes]:
    script = CHARGE_UNTIL_KILLED
    if limit is not None:
        script = (
            f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
            + script
        )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(path), str(released)]
    return subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE)


def test_every_step_released_before_a_kill_is_in_the_ledger(path: Path, tmp_path: Path) -> None:
    released = tmp_path / "released"
    for attempt in range(3):
        before = released.stat().st_size if released.exists() else 0
        process = charge_in_a_process(path, released)
        while process.poll() is None and not (
            released.exists() and released.stat().st_size > before + 50
        ):
            time.sleep(0.005 + 0.003 * attempt)
        assert process.poll() is None, process.stderr.read()
        process.kill()
        process.communicate()
        found = read_ledger(path, plan=PLAN)
        marks = [int(mark) for mark in released.read_text().split()]
        assert len(set(marks)) == len(marks)
        assert max(marks) <= found.rows


def test_every_step_released_before_the_disk_is_full_is_in_the_ledger(
    path: Path, tmp_path: Path
) -> None:
    """The file size limit stands in for a full disk: the kernel itself cuts the last row short."""
    released = tmp_path / "released"
    process = charge_in_a_process(path, released, limit=4000)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Nothing was released" in stderr
    found = read_ledger(path, plan=PLAN)
    assert path.stat().st_size == 4000
    assert found.torn
    assert [int(mark) for mark in released.read_text().split()] == list(range(1, found.rows + 1))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_every_step_released_before_a_tiny_file_system_is_full_is_in_the_ledger(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("this machine mounts no tmpfs")
    try:
        path, released = disk / "ledger.jsonl", tmp_path / "released"
        process = charge_in_a_process(path, released)
        _, stderr = process.communicate(timeout=60)
        assert b"Nothing was released" in stderr
        assert [int(mark) for mark in released.read_text().split()] == list(
            range(1, read_ledger(path, plan=PLAN).rows + 1)
        )
    finally:
        subprocess.run(["umount", str(disk)], check=True)


READ_ONLY = """
import os, sys
from dppipe.errors import UsageError
from dppipe.runs.ledger import Ledger
os.setgid(65534), os.setuid(65534)
try:
    Ledger.create(sys.argv[1], plan=b"")
except UsageError as error:
    print(error)
"""


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs another user, for whom the directory is read-only"
)
def test_a_read_only_directory_is_named() -> None:
    with (
        tempfile.TemporaryDirectory() as directory
    ):  # pytest's own directories can't even be entered by another user
        Path(directory).chmod(0o755)
        command = [sys.executable, "-c", READ_ONLY, f"{directory}/ledger.jsonl"]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert (
            "expected a directory that can be written to, got Permission denied" in done.stdout
        ), done.stderr
        assert not list(Path(directory).iterdir())
