"""`apass opt --journal`: which results are written, so that the same command goes on after it was cut off."""

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from apass.batch.journal import Journal, OpenJournal, describe_run
from apass.cli.formats import ModelFormat
from apass.cli.inputs import Job
from apass.core.context import PassContext
from apass.passes.base import Pass
from apass.util.files import Prepared

__all__ = ["FileJournal", "Finished", "States", "file_journal"]

States = Mapping[str, list[Any]]
"""Files by path, each with its size and a digest of its contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What there is to say of a file that is finished."""

    before: int | None
    """Nodes of the model as it was read."""
    after: int | None
    """Nodes of the result."""
    remark: str
    """What else there was to say."""


class FileJournal:
    """Which results are written, and what they were made of; safe for many threads at once."""

    def __init__(self, journal: OpenJournal) -> None:
        self._journal = journal

    def look_up(self, job: Job) -> Finished | None:
        """Return what is known of a job that is finished: whose result is there, and whose model is as it was."""
        found = self._journal.find(_key(job))
        if found is None:
            return None
        head = found[0]
        is_in_place = job.source.resolve() == job.target.resolve()
        is_same = _are_there(head["targets"]) and (is_in_place or _are_there(head["sources"]))
        return Finished(**head["finished"]) if is_same else None

    def states(self, job: Job, model_format: ModelFormat) -> States:
        """Return the files that a job reads, as they are now."""
        return _states([job.source, *model_format.companions(job.source)])

    def prepared(self, job: Job, sources: States, finished: Finished) -> Prepared:
        """Return what keeps a job as finished, once told of the files that are about to become its result.

        A run that is killed before they are renamed leaves an entry for a result that is not there, which says nothing.
        """

        def keep(files: Mapping[Path, Path]) -> None:
            targets = {str(target.resolve()): _state(part) for target, part in files.items()}
            head = {"targets": targets, "sources": sources, "finished": asdict(finished)}
            self._journal.add(_key(job), head)

        return keep


@contextmanager
def file_journal(
    path: Path | None, passes: Mapping[str, Pass[Any]], context: PassContext, *, verify: bool
) -> Generator[FileJournal | None]:
    """Have the journal at `path` open within; None where there is no path.

    Raises:
        JournalError: if it is the journal of another command, or cannot be used.

    """
    if path is None:
        yield None
        return
    described = describe_run(passes, context, **{"--verify-outputs": verify})
    with closing(OpenJournal(Journal(path), described)) as opened:
        yield FileJournal(opened)


def _key(job: Job) -> str:
    return json.dumps([str(job.source.resolve()), str(job.target.resolve())])


def _states(paths: Iterable[Path]) -> States:
    return {str(path.resolve()): _state(path) for path in paths}


def _state(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [path.stat().st_size, file_digest(file, "sha256").hexdigest()]


def _are_there(states: States) -> bool:
    """Tell whether every file is as it was."""
    return all(_is_there(Path(path), state) for path, state in states.items())


def _is_there(path: Path, state: list[Any]) -> bool:
    return path.is_file() and path.stat().st_size == state[0] and _state(path) == state
