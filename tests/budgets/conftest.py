"""Stores for the tests: a file, and a real PostgreSQL server where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = next(
    (folder for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None
)


def server_user() -> str | None:
    """The server refuses to run as root: there it needs the user that Debian's package makes."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    return "postgres" if any(user.pw_name == "postgres" for user in pwd.getpwall()) else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of an empty database, reached by a socket in a directory of its own."""
    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    pytest.importorskip(
        "psycopg", reason="the driver is not installed: pip install 'dppipe[postgres]'"
    )
    user = server_user()
    if user is None:
        pytest.skip("no user to run the server as")
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, user)

    def call(program: str, *arguments: str) -> None:
        command = [str(PROGRAMS / program), *arguments]
        done = subprocess.run(
            command,
            user=user if os.geteuid() == 0 else None,
            capture_output=True,
            cwd=folder,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout.decode()} {done.stderr.decode()}")

    try:
        call("initdb", "-D", f"{folder}/data", "-U", "dppipe", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -k {folder} -c max_connections=80"
        call("pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o", options, "start")
        try:
            yield f"postgresql://dppipe@/postgres?host={folder}"
        finally:
            call("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where an empty store is: each kind of store in turn."""
    if request.param == "sqlite":
        yield str(tmp_path / "store" / "budgets.db")
        return
    url = request.getfixturevalue("postgres")
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS dppipe_entries, dppipe_scopes, dppipe_facts")
    yield url
