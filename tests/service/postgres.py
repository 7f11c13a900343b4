"""A PostgreSQL server of a test, which the test may kill and restart."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shutil import which
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest

__all__ = ["POSTGRES", "USER", "PostgresServer", "needs_postgres", "running_postgres"]

PASSWORD = "a secret:/@%"
"""The password of the user, with characters that a URL has to escape."""


def _folder() -> Path | None:
    """Return the folder of the programs; distributions leave it out of PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = which("initdb")
    folders += [Path(found).resolve().parent] if found is not None else []
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def _user_name() -> str | None:
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


USER = _user_name()
"""The user of the server, which refuses to run as root; None for the user of this process."""

needs_postgres = pytest.mark.skipif(
    _folder() is None or (os.getuid() == 0 and USER is None), reason="PostgreSQL is not installed"
)

POSTGRES = pytest.param("postgres", marks=[needs_postgres, pytest.mark.network, pytest.mark.process])
"""The parameter of a test that needs PostgreSQL."""


class PostgresServer:
    """A server on a free port of this machine.

    Parameters:
        folder: the folder for its files.

    """

    def __init__(self, folder: Path) -> None:
        programs = _folder()
        assert programs is not None, "the test is skipped without the programs"
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._names = count(1)
        if USER is not None:
            shutil.chown(folder, USER)
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        options = ("--auth=scram-sha-256", "--username=tester", f"--pwfile={password}", "--encoding=UTF8")
        self._run("initdb", "-D", str(self._data), "--no-sync", "--locale=C", *options)
        # Another process may take the free port before the server does.
        for _ in range(10):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = int(free.getsockname()[1])
            if self._start(check=False):
                return
        raise AssertionError(f"the server did not start: {(folder / 'log').read_text()}")

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://tester:a%20secret%3A%2F%40%25@127.0.0.1:{self.port}/{database}"

    def create(self, options: str = "") -> str:
        """Create an empty database, and return its URL."""
        name = f"test_{next(self._names)}"
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name} {options}".encode())
        return self.url(name)

    def create_schema(self) -> str:
        """Create an empty schema, and return its URL.

        It takes less time than a database.
        """
        name = f"test_{next(self._names)}"
        self.query("postgres", f"CREATE SCHEMA {name}")
        return f"{self.url('postgres')}?options=-csearch_path%3D{name}"

    def connect(self, database: str) -> psycopg.Connection:
        """Return a connection that commits each statement; `database` may be a URL."""
        url = database if "://" in database else self.url(database)
        return psycopg.connect(url, autocommit=True)

    def query(self, database: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which is committed."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return [] if cursor.description is None else cursor.fetchall()

    def start(self) -> None:
        """Start the server."""
        assert self._start(check=True)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server.

        The mode `immediate` is that of a crash: the server recovers at its next start.
        """
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")

    def restart(self, mode: str = "immediate") -> None:
        """Stop and start the server."""
        self.stop(mode)
        self.start()

    def _start(self, *, check: bool) -> bool:
        settings = (
            "-F",  # the machine does not lose power in a test
            f"-p {self.port}",
            "-c listen_addresses=127.0.0.1",
            f"-c unix_socket_directories='{self._folder}'",
            "-c shared_buffers=16MB",
        )
        log = str(self._folder / "log")
        command = ("-D", str(self._data), "-l", log, "-t", "60", "-w", "-o", " ".join(settings), "start")
        return self._run("pg_ctl", *command, check=check)

    def _run(self, program: str, *arguments: str, check: bool = True) -> bool:
        # The server inherits the standard streams, so pipes would stay open.
        with (self._folder / "output").open("ab") as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                user=USER,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
        if check:
            assert done.returncode == 0, (self._folder / "output").read_text()
        return done.returncode == 0


@contextmanager
def running_postgres() -> Generator[PostgresServer]:
    """Run a server during the block."""
    # Not in the folder of the test, which the user of the server cannot enter.
    folder = Path(mkdtemp(prefix="apass-postgres-"))
    try:
        server = PostgresServer(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
