"""The tables of `SqlJobStore`, for SQLite and PostgreSQL."""

import re
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.types import TypeDecorator

from apass.service.errors import JobsUnavailableError

__all__ = [
    "APPLICATION_ID",
    "BLOBS",
    "CHUNKS",
    "EVENTS",
    "IS_DONE",
    "IS_UNFINISHED",
    "JOBS",
    "SCHEMA",
    "UPLOADS",
    "USES",
    "VERSION",
    "escape",
    "prepare_schema",
    "unescape",
]

VERSION: Final = 3
"""The version of the tables."""

APPLICATION_ID: Final = int.from_bytes(b"apaj")
"""The number by which a SQLite file is recognized."""

METADATA: Final = MetaData()

IS_UNFINISHED: Final = "state IN ('queued', 'running')"
"""The jobs that have not ended.

It has no parameters: otherwise neither database uses a partial index.
"""

IS_DONE: Final = "state = 'done'"
"""The jobs that are done."""


def escape(value: str) -> str:
    r"""Return a text that both databases accept, and that no other text has.

    PostgreSQL rejects NUL, and both reject parts of surrogate pairs.

    >>> escape("\0 \\ \ud800")
    '\\0 \\\\ \\ud800'
    """
    if value.isascii() and "\\" not in value and "\0" not in value:
        return value
    return value.replace("\\", "\\\\").replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


_ESCAPES: Final = re.compile(r"\\(\\|0|u[0-9a-f]{4})")


def unescape(value: str) -> str:
    r"""Return the text that `escape` has escaped.

    >>> unescape(escape("\0 \\0 \\ud800 \ud800")) == "\0 \\0 \\ud800 \ud800"
    True
    """
    if "\\" not in value:
        return value
    return _ESCAPES.sub(lambda found: {"\\": "\\", "0": "\0"}.get(found[1]) or chr(int(found[1][1:], 16)), value)


class _Escaped(TypeDecorator[str]):
    """A text of a user or a client, which is escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """Escape a value."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        """Return the original of a value."""
        return None if value is None else unescape(value)


# Ids are compared as in Python, whatever the locale of the database.
_TEXT: Final = _Escaped().with_variant(_Escaped(collation="C"), "postgresql")

JOBS: Final = Table(
    "apass_jobs",
    METADATA,
    Column("id", _TEXT, primary_key=True),
    Column("tenant", _TEXT, nullable=False),
    Column("state", Text, nullable=False),
    # In lower case, for searches: of the functions of the databases, some change ASCII letters only.
    Column("name", _TEXT, nullable=False),
    Column("pipeline", _TEXT, nullable=False),
    Column("key", _TEXT, nullable=False),
    Column("idempotency_key", _TEXT),
    Column("created", Float, nullable=False),
    # Set when the job has ended, and only then.
    Column("finished", Float),
    Column("attempts", Integer, nullable=False),
    Column("model", _TEXT, nullable=False),
    Column("result", _TEXT),
    Column("report", _TEXT),
    Column("record", Text, nullable=False),
    Index("apass_jobs_of_tenant", "tenant", "id", "state"),
    Index("apass_jobs_finished", "finished", sqlite_where=text("finished IS NOT NULL")),
)
for _name, _columns, _condition, _is_unique in (
    ("done", ("tenant", "key", "id"), IS_DONE, False),
    ("unfinished", ("id", "state"), IS_UNFINISHED, False),
    ("idempotent", ("tenant", "idempotency_key"), "idempotency_key IS NOT NULL", True),
):
    Index(
        f"apass_jobs_{_name}",
        *(JOBS.c[_column] for _column in _columns),
        unique=_is_unique,
        sqlite_where=text(_condition),
        postgresql_where=text(_condition),
    )

BLOBS: Final = Table(
    "apass_blobs",
    METADATA,
    Column("digest", _TEXT, primary_key=True),
    Column("size", BigInteger, nullable=False),
    # A blob that was removed and stored again has other chunks, so that the old ones can be deleted later.
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
)

CHUNKS: Final = Table(
    "apass_chunks",
    METADATA,
    Column("body", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

USES: Final = Table(
    "apass_uses",
    METADATA,
    Column("digest", _TEXT, primary_key=True),
    Column("job", _TEXT, primary_key=True),
    sqlite_with_rowid=False,
)
"""Which jobs refer to a blob. It is removed with the last of them."""

UPLOADS: Final = Table("apass_uploads", METADATA, Column("body", Text, primary_key=True))
"""Chunks of no blob: they are being written, or are to be deleted."""

EVENTS: Final = Table(
    "apass_events",
    METADATA,
    Column("job", _TEXT, primary_key=True),
    Column("last", BigInteger, primary_key=True),
    Column("data", Text, nullable=False),
)
"""Events in batches, by the number of the last one."""

SCHEMA: Final = Table(
    "apass_schema",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    # Another one each time that a server opens the database. Each transaction that writes compares it.
    Column("server", Text, nullable=False),
)


def prepare_schema(connection: Connection, label: str) -> None:
    """Create the tables unless they exist, in the transaction of a connection.

    Raises:
        JobsUnavailableError: if the tables are those of another version or program, or the encoding is not UTF-8.

    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        encoding = connection.scalar(text("SHOW server_encoding"))
        if encoding != "UTF8":
            raise JobsUnavailableError(
                f"{label} has the encoding {encoding}, and the texts of jobs need UTF8; "
                "create the database with ENCODING 'UTF8'"
            )
    names = set(inspect(connection).get_table_names())
    if SCHEMA.name in names:
        versions = list(connection.scalars(select(SCHEMA.c.version)))
        if versions != [VERSION]:
            found = " and ".join(map(str, versions)) or "none"
            raise JobsUnavailableError(
                f"{label} has tables of the version {found}, and this apass uses {VERSION}; "
                "use another database, or the apass that wrote it"
            )
        return
    foreign = names if is_sqlite else names & set(METADATA.tables)
    if foreign:
        raise JobsUnavailableError(
            f"{label} has tables of another program, such as {min(foreign)!r}; it was not changed; use another database"
        )
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(insert(SCHEMA).values(version=VERSION, server=""))
    if is_sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
