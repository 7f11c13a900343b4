"""`apass opt --journal`: records finished models for the next run."""

import json
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import file_digest
from pathlib import Path
from typing import Any, TypeGuard, cast

from apass.batch.formats import ModelFormat
from apass.cli.inputs import Job
from apass.core.context import PassContext
from apass.errors import JournalError
from apass.passes.base import Pass
from apass.util.files import Prepared

__all__ = ["Earlier", "FileJournal", "Finished", "States", "file_journal"]

States = Mapping[str, list[Any]]
"""Files by path, each with its size and a digest of its contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The table row of a finished model."""

    before: int | None
    """Nodes of the model as it was read."""
    after: int | None
    """Nodes of the result."""
    remark: str
    """The remark of the row, such as `unchanged`."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the journal knows about the result of an earlier run."""

    finished: Finished
    """The table row."""
    bytes_before: int
    """Size of the files of the model as it was read."""
    bytes_after: int
    """Size of the files of the result."""


class FileJournal:
    """Results that are written, and the files that they were made from. Thread-safe.

    Parameters:
        journal: the `OpenJournal` that holds the entries. Its module is imported for runs with a journal only.

    """

    def __init__(self, journal: Any) -> None:
        self._journal = journal

    def look_up(self, job: Job) -> Earlier | None:
        """Return the entry of a finished job.

        Return None if there is no entry, or the model or its result changed since then.
        """
        entry = self._journal.find(_key(job))
        if entry is None:
            return None
        targets, sources, finished = (entry.head.get(name) for name in ("targets", "sources", "finished"))
        if not _are_states(targets) or not _are_states(sources) or not _is_row(finished):
            raise entry.invalid("does not describe a finished model")
        # In place, the result has replaced the source.
        is_in_place = job.source.resolve() == job.target.resolve()
        is_current = _are_unchanged(targets) and (is_in_place or _are_unchanged(sources))
        return Earlier(Finished(**finished), _bytes(sources), _bytes(targets)) if is_current else None

    def states(self, job: Job, model_format: ModelFormat) -> States:
        """Return the current states of the files that a job reads."""
        paths = [job.source, *model_format.companions(job.source)]
        return {str(path.resolve()): _state(path) for path in paths}

    def prepared(self, job: Job, sources: States, finished: Finished) -> Prepared:
        """Return a callback that records a job as finished, for `ModelFormat.save`.

        It is called before the files of the result are renamed to their targets. If the run is killed in between, the
        entry does not match the files, and `look_up` ignores it.
        """

        def record(files: Mapping[Path, Path]) -> None:
            targets = {str(target.resolve()): _state(part) for target, part in files.items()}
            head = {"targets": targets, "sources": sources, "finished": asdict(finished)}
            self._journal.add(_key(job), head)

        return record


@contextmanager
def file_journal(
    path: Path | None, passes: Mapping[str, Pass[Any]], context: PassContext, *, verify: str | bool
) -> Generator[FileJournal | None]:
    """Open the journal at `path`; yield None if there is no path.

    Raises:
        JournalError: if the journal belongs to another command, or cannot be used.

    """
    if path is None:
        yield None
        return
    # Most runs have no journal.
    from apass.batch.journal import Journal, OpenJournal, describe_run

    description = describe_run(passes, context, **{"--verify-outputs": verify})
    try:
        opened = OpenJournal(Journal(path), description)
    except OSError as error:  # that of a full disk names no file
        raise JournalError(f"the journal {str(path)!r} cannot be written: {error.strerror}") from error
    with closing(opened) as journal:
        yield FileJournal(journal)


def _are_states(value: Any) -> TypeGuard[States]:
    """Return whether a value of a journal has the type of states."""
    if not isinstance(value, dict):
        return False
    states = cast("dict[str, object]", value).values()
    return all(isinstance(state, list) and len(cast("list[object]", state)) == 2 for state in states)


def _bytes(states: States) -> int:
    """Return the size of all files."""
    sizes = [state[0] for state in states.values()]
    return sum(size for size in sizes if isinstance(size, int))


def _is_row(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value of a journal has the fields of `Finished`."""
    if not isinstance(value, dict) or value.keys() != {field.name for field in fields(Finished)}:
        return False
    counts = (cast("dict[str, object]", value)[name] for name in ("before", "after"))
    return isinstance(value["remark"], str) and all(count is None or isinstance(count, int) for count in counts)


def _key(job: Job) -> str:
    return json.dumps([str(job.source.resolve()), str(job.target.resolve())])


def _state(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [path.stat().st_size, file_digest(file, "sha256").hexdigest()]


def _are_unchanged(states: States) -> bool:
    return all(_is_unchanged(Path(path), state) for path, state in states.items())


def _is_unchanged(path: Path, state: list[Any]) -> bool:
    # The size is compared first, because the digest reads the whole file.
    return path.is_file() and path.stat().st_size == state[0] and _state(path) == state
