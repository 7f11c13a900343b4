"""`Study`: the trials of a search in a file."""

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from apass.errors import SearchError
from apass.search.trial import Trial
from apass.util.text import shorten

__all__ = ["Study", "is_study", "read_table"]

_APPLICATION_ID: Final = int.from_bytes(b"apst")
"""The number by which a file is recognized as a study."""
_SCHEMA: Final = """
CREATE TABLE search (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE modules (fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE trials (
  number INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, key BLOB NOT NULL, pipeline TEXT NOT NULL, point TEXT,
  result TEXT, value TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL, source TEXT NOT NULL,
  details TEXT NOT NULL, reproducer TEXT NOT NULL
);
CREATE UNIQUE INDEX by_key ON trials (fingerprint, key);
CREATE INDEX by_result ON trials (fingerprint, result) WHERE result IS NOT NULL;
"""
_COLUMNS: Final = "number, fingerprint, pipeline, value, reason, seconds, source, details, reproducer"
_REMEDY: Final = "use the options of that search, use another file, or delete this one to start over"


class Study:
    """The trials of one search, in a SQLite file.

    Each trial is written before its result is used, and survives the end of the process. One process at a time can use
    a file.

    Parameters:
        path: the file; None for a temporary one, so that the memory stays flat.
        search: what the values depend on beside the modules: space, objective, baseline, context.

    Raises:
        SearchError: if the file belongs to another search, is in use or is no study.

    """

    def __init__(self, path: Path | None, search: Mapping[str, str]) -> None:
        self.path: Final = path
        """The file; None for a temporary one."""
        self._names: dict[str, str] = {}
        if path is None:
            # An empty name is a database in a temporary file, which SQLite removes.
            self._db = sqlite3.connect("", isolation_level=None)
        else:
            self._db = self._open(path)
        try:
            self._prepare(search)
        except sqlite3.Error as error:
            self.close()
            is_locked = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY
            reason = "another process uses it; wait for its end" if is_locked else str(error)
            raise SearchError(f"cannot use the study {str(path)!r}: {reason}") from None
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path) -> sqlite3.Connection:
        if path.exists() and path.stat().st_size and not is_study(path):
            raise SearchError(f"the file {str(path)!r} is not the study of a search; choose another path")
        if not path.absolute().parent.is_dir():
            raise SearchError(f"the folder of the study {str(path)!r} does not exist; create it first")
        return sqlite3.connect(path, timeout=0, isolation_level=None)

    def _prepare(self, search: Mapping[str, str]) -> None:
        # One process at a time: two would measure the same candidates.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'search'").fetchone():
            # Before the write-ahead log: the file is known as a study also after a crash.
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID}; COMMIT;")
            self._db.executemany("INSERT INTO search VALUES (?, ?)", search.items())
        self._db.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing. A power failure may lose the last trials.
        self._db.execute("PRAGMA synchronous = NORMAL")
        stored = dict(self._db.execute("SELECT key, value FROM search").fetchall())
        differ = [key for key in {**stored, **search} if stored.get(key) != search.get(key)]
        if differ:
            parts = [f"{key} {_shown(stored.get(key))}, not {_shown(search.get(key))}" for key in differ]
            raise SearchError(f"the study {str(self.path)!r} belongs to another search: {'; '.join(parts)}; {_REMEDY}")

    def close(self) -> None:
        """Close the file, so that other processes can use it."""
        self._db.close()

    @property
    def next_number(self) -> int:
        """The number of the next trial."""
        (last,) = self._db.execute("SELECT max(number) FROM trials").fetchone()
        return 0 if last is None else int(last) + 1

    @property
    def candidates(self) -> int:
        """The number of trials without baselines."""
        (count,) = self._db.execute("SELECT count(*) FROM trials WHERE point IS NOT NULL").fetchone()
        return int(count)

    def add_module(self, fingerprint: str, name: str) -> None:
        """Note a module, whose trials have its name."""
        self._names[fingerprint] = name
        self._db.execute("INSERT OR REPLACE INTO modules VALUES (?, ?)", (fingerprint, name))

    def add(self, fingerprint: str, trial: Trial, point: object, result: str | None) -> None:
        """Write a trial.

        Parameters:
            fingerprint: the fingerprint of the module.
            trial: the trial.
            point: the point as values of JSON; None for a baseline.
            result: the fingerprint of the resulting module; None if there is none.

        """
        row = (
            trial.number,
            fingerprint,
            _key(trial.pipeline),
            trial.pipeline,
            None if point is None else json.dumps(point, separators=(",", ":")),
            result,
            json.dumps(dict(trial.values)),
            trial.reason,
            trial.seconds,
            trial.source,
            json.dumps(dict(trial.details)),
            trial.reproducer,
        )
        self._db.execute(f"INSERT INTO trials VALUES ({', '.join('?' * len(row))})", row)

    def reject(self, number: int, reason: str) -> None:
        """Make a trial invalid."""
        self._db.execute("UPDATE trials SET reason = ? WHERE number = ?", (reason, number))

    def result_of(self, number: int) -> str | None:
        """Return the fingerprint of the module that a trial has built."""
        row = self._db.execute("SELECT result FROM trials WHERE number = ?", (number,)).fetchone()
        return None if row is None else row[0]

    def find(self, fingerprint: str, pipeline: str) -> Trial | None:
        """Return the trial of a pipeline on a module."""
        return self._first("fingerprint = ? AND key = ?", (fingerprint, _key(pipeline)))

    def find_equal(self, fingerprint: str, result: str) -> Trial | None:
        """Return a trial of a module with values, whose resulting module is equal."""
        where = "fingerprint = ? AND result = ? AND value <> '{}' AND source = 'measured'"
        return self._first(where, (fingerprint, result))

    def trials(self, fingerprint: str) -> Iterator[Trial]:
        """Iterate over the trials of a module, in their order."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE fingerprint = ? ORDER BY number"
        yield from map(self._trial, self._db.execute(query, (fingerprint,)))

    def points(self, fingerprint: str) -> Iterator[tuple[object, Trial]]:
        """Iterate over the points and trials of a module, without baselines."""
        query = f"SELECT {_COLUMNS}, point FROM trials WHERE fingerprint = ? AND point IS NOT NULL ORDER BY number"
        for *row, point in self._db.execute(query, (fingerprint,)):
            trial = self._trial(row)
            try:
                yield json.loads(point), trial
            except ValueError as error:
                raise SearchError(f"trial {trial.number} of the study {str(self.path)!r} is damaged: {error}") from None

    def _first(self, where: str, arguments: tuple[object, ...]) -> Trial | None:
        row = self._db.execute(f"SELECT {_COLUMNS} FROM trials WHERE {where} LIMIT 1", arguments).fetchone()
        return None if row is None else self._trial(row)

    def _trial(self, row: Any) -> Trial:
        number, fingerprint, pipeline, values, reason, seconds, source, details, reproducer = row
        try:
            return Trial(
                number=number,
                module=self._names.get(fingerprint, str(fingerprint)),
                pipeline=pipeline,
                values={str(name): _finite(value) for name, value in json.loads(values).items()},
                reason=reason,
                seconds=seconds,
                source="equal" if source == "equal" else "measured",
                details=dict(json.loads(details)),
                reproducer=reproducer,
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise SearchError(f"trial {number} of the study {str(self.path)!r} is damaged: {error}") from None


def _finite(value: object) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return value


def _key(pipeline: str) -> bytes:
    return blake2b(pipeline.encode(), digest_size=16).digest()


def _shown(value: str | None) -> str:
    return "none" if value is None else shorten(repr(value))


def is_study(path: Path) -> bool:
    """Return whether a file is the study of a search."""
    try:
        with path.open("rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:72] == _APPLICATION_ID.to_bytes(4)


def read_table(path: Path, *, without: str = "") -> dict[str, dict[str, float]]:
    """Return the values of pipelines in a study, relative to the baselines.

    Only the first objective counts, and only values of valid trials that are positive.

    Parameters:
        path: the file.
        without: the fingerprint of a module that is left out.

    Raises:
        SearchError: if the file cannot be read.

    """
    table: dict[str, dict[str, float]] = {}
    baselines: dict[str, float] = {}
    query = "SELECT fingerprint, pipeline, value, point IS NULL FROM trials WHERE reason = '' ORDER BY number"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            for fingerprint, pipeline, values, is_baseline in database.execute(query):
                value = next(iter(json.loads(values).values()), 0.0)
                # The first one; later ones are pipelines outside of the space.
                if is_baseline and fingerprint not in baselines:
                    baselines[fingerprint] = value
                elif fingerprint != without and value > 0 and baselines.get(fingerprint, 0.0) > 0:
                    table.setdefault(pipeline, {})[fingerprint] = value / baselines[fingerprint]
    except (sqlite3.Error, ValueError) as error:
        raise SearchError(f"cannot read the study {str(path)!r}: {error}") from None
    return table
