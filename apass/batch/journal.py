"""`Journal`: a file with the finished results of a batch, used to resume it."""

import json
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from anyio import CancelScope

from apass.batch.journal_file import JournalFile, JournalRecord
from apass.concurrency.thread_batches import ThreadBatches
from apass.core.adapter import (
    IRAdapter,
    ModT,
    adapter_by_name,
    adapter_for,
    facts_of,
    load_with_facts,
    run_in_thread_if_safe,
    type_name,
)
from apass.core.context import PassContext
from apass.errors import JournalError, JournalWarning
from apass.passes.base import Pass
from apass.runner.cache_keys import own_version
from apass.util.fingerprint import fingerprint_value
from apass.util.text import shorten

__all__ = ["FoundResult", "Journal", "JournalChoice", "OpenJournal", "check_journal", "describe_run", "finish"]

_RUN: Final = "run"
"""The field in the head of the first record that describes the run."""
_INLINE_LIMIT: Final = 65_536
"""Results up to this size are written in the event loop, unless they are flushed to the disk."""
_REMEDY: Final = "use the pipeline and options of that run, use another journal, or delete this one to start over"


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal for `optimize_all` or `optimize_stream`; a plain path works as well.

    Stored results survive any end of the process. Only one process at a time can use a journal.
    """

    path: Path | str
    """The file; it is created if missing."""
    fsync: bool = field(default=False, kw_only=True)
    """Whether each result is flushed to disk before its outcome is returned, so that it survives a power failure.

    Without it, the results of the last seconds before a power failure may be lost.
    """


JournalChoice = Journal | Path | str | None
"""A journal, the path of one, or None for none."""


def check_journal(choice: JournalChoice) -> Journal | None:
    """Return the chosen journal, or None.

    Raises:
        TypeError: if `choice` is neither a journal nor a path.

    """
    if choice is None or isinstance(choice, Journal):
        return choice
    if isinstance(choice, str | Path):
        return Journal(choice)
    raise TypeError(f"journal must be a path or an apass.batch.Journal(path), got {choice!r}")


def describe_run(passes: Mapping[str, Pass[Any]], ctx: PassContext, **more: object) -> dict[str, Any]:
    """Return everything except the modules that results depend on, as JSON values.

    Parameters:
        passes: the pipelines by name.
        ctx: the context of the run.
        **more: further values.

    Raises:
        JournalError: if a pipeline cannot be written as text.

    """
    try:
        texts = {name: str(pass_) for name, pass_ in passes.items()}
    except TypeError as error:
        message = f"a journal identifies a pipeline by its text, but this one cannot be written as text: {error}"
        raise JournalError(message) from error
    all_passes = [inner for pass_ in passes.values() for inner in _walk(pass_)]
    return {
        "version of apass": own_version(),
        "pipeline": texts if len(texts) != 1 else next(iter(texts.values())),
        "versions of passes": {
            pass_.info.name: pass_.caching.version for pass_ in all_passes if pass_.caching.version != "1"
        },
        "opt_level": ctx.opt_level,
        "disabled passes": sorted(ctx.disabled_pass),
        "required passes": sorted(ctx.required_pass),
        "config": {key: fingerprint_value(ctx.config[key]) for key in sorted(ctx.config)},
        **more,
    }


@dataclass(frozen=True, slots=True)
class FoundResult:
    """A stored result."""

    head: Mapping[str, Any]
    """The description that `OpenJournal.add` received."""
    data: bytes
    """The data."""
    file: JournalFile
    """The file that holds it."""
    number: int
    """The number of its record."""

    def invalid(self, reason: str) -> JournalError:
        """Return an error that names the record."""
        return self.file.error(self.number, reason)

    def damaged(self, error: Exception) -> None:
        """Warn that the data cannot be read."""
        reason = shorten(f"{type(error).__name__}: {error}")
        place = f"record {self.number} of the journal {str(self.file.path)!r}"
        message = f"{place} holds a result that cannot be read ({reason}); its module is computed again"
        warnings.warn(message, JournalWarning, stacklevel=2)


class OpenJournal:
    """A journal in use by one run; thread-safe.

    Parameters:
        journal: the journal to open.
        run: the result of `describe_run`.

    Raises:
        JournalError: if the journal belongs to another run, or the file cannot be used.

    """

    def __init__(self, journal: Journal, run: Mapping[str, Any]) -> None:
        self._records: dict[str, JournalRecord] = {}
        self._file = JournalFile(Path(journal.path), fsync=journal.fsync)
        self._fsync = journal.fsync
        self._writes = ThreadBatches(self._add_all)
        try:
            # The stored description went through JSON, which turns tuples into lists.
            self._load(json.loads(json.dumps(run)))
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self._records)

    def find(self, key: str) -> "FoundResult | None":
        """Return the latest result of `key`, or None."""
        record = self._records.get(key)
        data = None if record is None else self._file.read(record)
        return None if record is None or data is None else FoundResult(record.head, data, self._file, record.number)

    def add(self, key: str, head: Mapping[str, Any], data: bytes = b"") -> None:
        """Store a result under `key`.

        Raises:
            JournalError: if it cannot be written.

        """
        self._records[key] = self._file.append({"key": key, **head}, data)

    async def write(self, key: str, head: Mapping[str, Any], data: bytes = b"") -> None:
        """Store a result as `add` does, and return when it is in the file.

        Concurrent callers share one write, and one flush to the disk.

        Raises:
            JournalError: if it cannot be written.

        """
        # A thread would cost more than the write of a small record to the cache of the operating system.
        if self._fsync or len(data) > _INLINE_LIMIT or self._file.is_busy:
            await self._writes.run((key, head, data))
        else:
            self.add(key, head, data)

    def close(self) -> None:
        """Close the file, so that other processes can open it."""
        self._file.close()

    def _add_all(self, results: Sequence[tuple[str, Mapping[str, Any], bytes]]) -> list[JournalError | None]:
        """Store results; return the error of each, or None."""
        records = self._file.append_all([({"key": key, **head}, data) for key, head, data in results])
        errors: list[JournalError | None] = []
        for (key, _, _), record in zip(results, records, strict=True):
            if isinstance(record, JournalError):
                errors.append(record)
            else:
                self._records[key] = record
                errors.append(None)
        return errors

    def _load(self, run: dict[str, Any]) -> None:
        stored: Mapping[str, Any] | None = None
        for record in self._file:
            if stored is None:
                stored = record.head.get(_RUN)
                if not isinstance(stored, dict) or not isinstance(stored.get("config", {}), dict):
                    raise self._file.error(record.number, "does not describe the run")
                continue
            key = record.head.get("key")
            if not isinstance(key, str):
                raise self._file.error(record.number, "has no key")
            self._records[key] = record
        if stored is None:
            self._file.append({_RUN: run})
        elif stored != run:
            path = str(self._file.path)
            raise JournalError(f"the journal {path!r} belongs to another run: {_difference(stored, run)}")


async def finish(
    journal: OpenJournal, name: str, mod: ModT, run: Callable[[ModT], Awaitable[ModT]]
) -> tuple[ModT, bool]:
    """Return the result of a module from the journal, or run the passes and store it.

    The second item is whether the result comes from the journal.

    Raises:
        JournalError: if the result cannot be written to the journal.
        AdapterError: if the adapter cannot serialize the result.
        Exception: any error that `run` raised; errors are not stored.

    """
    adapter = adapter_for(mod)
    key, stored = await run_in_thread_if_safe(adapter, mod, partial(_find, journal, adapter, name, mod))
    if stored is not None:
        return stored, True
    result = await run(mod)
    try:
        # A finished result is stored even if the caller is cancelled meanwhile.
        with CancelScope(shield=True):
            if result is mod:
                await journal.write(key, {"name": name, "type": None})
            else:
                head, data = await run_in_thread_if_safe(adapter_for(result), result, partial(_as_record, name, result))
                await journal.write(key, head, data)
    except Exception as error:
        error.add_note("the passes have finished, but the result cannot be written to the journal")
        raise
    return result, False


def _find(journal: OpenJournal, adapter: IRAdapter[Any, Any], name: str, mod: Any) -> tuple[str, Any]:
    """Return the key of a module, and its stored result or None."""
    key = sha256(f"{adapter.fingerprint(mod)} {name}".encode()).hexdigest()
    entry = journal.find(key)
    if entry is None:
        return key, None
    kind = entry.head.get("type", ...)
    # No type: the passes returned the module unchanged.
    if kind is None:
        return key, mod
    if not isinstance(kind, str):
        raise entry.invalid("does not name the type of its result")
    result_adapter: Any = adapter if kind == type_name(mod) else adapter_by_name(kind)
    if result_adapter is None:
        return key, None
    try:
        return key, load_with_facts(result_adapter, entry.data, entry.head.get("facts"))
    except Exception as error:  # an adapter may raise any error for bytes that it did not write
        entry.damaged(error)
        return key, None


def _as_record(name: str, result: Any) -> tuple[Mapping[str, Any], bytes]:
    """Return the head and the data of the record of a changed module."""
    adapter: Any = adapter_for(result)
    facts = facts_of(adapter, result)
    fields = {} if facts is None else {"facts": facts}
    return {"name": name, "type": type_name(result), **fields}, adapter.dumps(result)


def _walk(pass_: Pass[Any]) -> Iterator[Pass[Any]]:
    yield pass_
    for child in pass_.children():
        yield from _walk(child)


def _difference(stored: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return a text that lists the differences of two runs and the remedy."""
    # The file may hold any number of fields.
    differ = [name for name in {**stored, **run} if stored.get(name) != run.get(name)][:20]
    parts = [f"{shorten(name)} {_shown(stored, name)}, not {_shown(run, name)}" for name in differ if name != "config"]
    # Config values are stored as fingerprints, so only the keys can be shown.
    if "config" in differ:
        old, new = stored.get("config", {}), run.get("config", {})
        keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        parts.append(shorten(f"other values of config {', '.join(keys)}"))
    return f"{'; '.join(parts)}; {_REMEDY}"


def _shown(run: Mapping[str, Any], name: str) -> str:
    return shorten(repr(run[name])) if run.get(name) else "none"
