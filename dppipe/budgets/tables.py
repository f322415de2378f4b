"""The store's tables and transactions, in SQLite or PostgreSQL.

Entries are only added, never changed: the last entry of a run states its cost, and the earlier ones
are its history. Transactions exclude each other from the first read to the commit, so that no two
runs are granted the same room and no dataset is charged to two scopes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from dppipe.budgets.places import chosen_place, is_url
from dppipe.environment import expand, names_variable
from dppipe.errors import NoStore, StoreFailed, UsageError

_WAIT_SECONDS = 120
_LOOK_SECONDS = 10
"""How long a command that only reads waits for others, and for a server that doesn't answer."""
_VERSION = "1"
_SETUP_LOCK = 0x64707069  # any number that nothing else in the database locks

_metadata = sa.MetaData()

facts = sa.Table(
    "dppipe_facts",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""The version of the tables and the key of the fingerprints."""

scopes = sa.Table(
    "dppipe_scopes",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("options", sa.JSON, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
)

entries = sa.Table(
    "dppipe_entries",
    _metadata,
    sa.Column(
        "id",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column("scope", sa.Text, sa.ForeignKey("dppipe_scopes.name"), nullable=False, index=True),
    sa.Column("run_id", sa.Text, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("amount", sa.Double, nullable=False),
    sa.Column("amount_delta", sa.Double, nullable=False),
    sa.Column("steps", sa.JSON, nullable=False),
    sa.Column("epsilon", sa.Double, nullable=False),
    sa.Column("delta", sa.Double, nullable=False),
    sa.Column("run_dir", sa.Text, nullable=False),
    sa.Column("plan_hash", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, index=True),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
)


class Database:
    """A store's database."""

    def __init__(self, place: str | Path | None = None, *, make: bool = True) -> None:
        """Open a file or a PostgreSQL database.

        Args:
            place: The file or the URL; by default what DPPIPE_STORE names.
            make: Whether to make a store where there is none; otherwise NoStore is raised.
        """
        chosen = chosen_place(place)
        self._named = names_variable(chosen)
        url = _named_url(chosen) if self._named else _url(chosen)
        self.place = _shown(url) if "://" in chosen and not self._named else chosen
        try:
            # Processes fork and are killed: every transaction has a connection of its own.
            options = _connect_args(url, make=make)
            self._engine = sa.create_engine(url, poolclass=sa.NullPool, connect_args=options)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise UsageError(
                f"{self.place}: the store can't be opened: {error}. Install dppipe[postgres]."
            ) from error
        if url.drivername.startswith("sqlite"):
            file = Path(url.database or "")
            if make:
                _make_file(file, shown=self.place)
            elif not _exists(file, shown=self.place):
                raise self._missing()
            _prepare_sqlite(self._engine)
        with self.transaction(first=True) as connection:
            if not make and not sa.inspect(connection).has_table(facts.name):
                raise self._missing()
            self._set_up(connection)

    def _missing(self) -> NoStore:
        way_out = "`dppipe budget create` makes one; DPPIPE_STORE names one elsewhere"
        return NoStore(f"{self.place}: no store of budgets is there. {way_out}.")

    @contextmanager
    def transaction(self, *, first: bool = False) -> Iterator[sa.Connection]:
        """Do the body durably and as a whole, or not at all, while all others wait.

        `first` is for the transaction that makes the tables.
        """
        try:
            with self._engine.begin() as connection:
                if connection.dialect.name == "postgresql":  # SQLite has begun exclusively
                    connection.execute(_postgres_lock(first=first))
                yield connection
        except SQLAlchemyError as error:
            cause = self._cause(getattr(error, "orig", None) or error)
            failure = f"the store of budgets failed: {cause}"
            raise StoreFailed(f"{self.place}: {failure}. Nothing was changed.") from error

    def _cause(self, error: BaseException) -> str:
        """Say why the database failed; of an address with variables its text could say a value."""
        if self._named:
            return type(error).__name__
        return str(error).strip().splitlines()[0].rstrip(".")

    def _set_up(self, connection: sa.Connection) -> None:
        _metadata.create_all(connection)
        rows = connection.execute(sa.select(facts.c.name, facts.c.value))
        known = {row.name: row.value for row in rows}
        if not known:
            version = {"name": "version", "value": _VERSION}
            key = {"name": "key", "value": secrets.token_hex(32)}
            connection.execute(sa.insert(facts), [version, key])
        elif known.get("version") != _VERSION:
            raise UsageError(
                f"{self.place}: expected a store of version {_VERSION}, got "
                f"{known.get('version')}. Use the dppipe that made it."
            )


def _postgres_lock(*, first: bool) -> sa.Select[Any]:
    """Return the query that makes a PostgreSQL transaction wait for all others."""
    if first:
        return sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK))
    return sa.select(facts.c.value).where(facts.c.name == "version").with_for_update()


def _url(chosen: str) -> sa.URL:
    if not is_url(chosen):
        return sa.URL.create("sqlite", database=str(Path(chosen).absolute()))
    try:
        url = sa.make_url(chosen)
    except (ArgumentError, ValueError):
        raise UsageError(
            "store: expected a file or a URL such as postgresql://user@host/database."
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise UsageError(
            f"store: expected a file or a postgresql:// URL, got {url.get_backend_name()}://."
        )
    if "@" in (url.host or ""):
        raise UsageError(
            "store: expected one @ in the URL, got several. Write %40 for one in a password."
        )
    return url


def _named_url(address: str) -> sa.URL:
    """Return the URL of an address that names variables; a fault shows none of their values."""
    expanded = expand(address)
    try:
        return _url(expanded)
    except UsageError:
        raise UsageError(
            f"store: expected a file or a URL such as postgresql://user@host/database, got "
            f"{address}, whose variables make something else."
        ) from None


def _shown(url: sa.URL) -> str:
    """Return a URL without secrets: a password can also be among its options."""
    options = {name: value for name, value in url.query.items() if name in ("host", "port")}
    return url.set(query=options).render_as_string(hide_password=True)


def _connect_args(url: sa.URL, *, make: bool) -> dict[str, Any]:
    wait = _WAIT_SECONDS if make else _LOOK_SECONDS
    if url.get_backend_name() == "sqlite":
        return {"timeout": wait}
    return {"connect_timeout": min(30, wait), "options": f"-c lock_timeout={wait}s"}


def _exists(path: Path, *, shown: str) -> bool:
    try:
        return path.exists()
    except OSError as error:
        message = f"expected a file that can be read, got {error.strerror}"
        raise UsageError(f"{shown}: {message}.") from error


def _make_file(path: Path, *, shown: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Only its owner may read the file: it holds the key of the fingerprints.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise UsageError(
            f"{shown}: expected a file that can be written to, got {error.strerror}."
        ) from error


def _prepare_sqlite(engine: sa.Engine) -> None:
    @sa.event.listens_for(engine, "connect")
    def settle_durability(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        # A grant that a power cut takes back could be granted again.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")  # a scope with entries can't be deleted

    @sa.event.listens_for(engine, "begin")
    def begin_exclusively(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
