"""`--split-input-file` and `--verify-diagnostics`: several modules in one file."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from apass.batch.formats import format_of
from apass.cli.errors import notes_of, text_of
from apass.cli.inputs import Job
from apass.cli.optimize import JobResult
from apass.cli.output_files import named
from apass.core.run import is_whereabouts
from apass.errors import InputError
from apass.util.files import write_whole

__all__ = ["SplitFiles", "split_files", "with_diagnostic"]


@dataclass(slots=True)
class _File:
    """A file and the modules in it."""

    job: Job
    """The file and the path of its result."""
    separator: str
    """The line between two modules."""
    parts: list[Job]
    """The modules, each in a temporary file."""
    padding: list[str]
    """The empty lines before each module in its file."""
    failed: set[str] = field(default_factory=set[str])
    """The names of modules without a result."""
    missing: int = 0
    """How many modules are not finished."""


class SplitFiles:
    """The modules of files as separate jobs, and the results joined again.

    A module fails without effect on the others, but a file with a failed module has no result.

    Parameters:
        jobs: the files.
        pipeline: the text of the pipeline; None for the default of each format.
        folder: a temporary folder.

    Raises:
        InputError: if a file cannot be read, or its format has no separator of modules.

    """

    def __init__(self, jobs: Sequence[Job], pipeline: str | None, folder: Path) -> None:
        self._folder = folder
        self._pipeline = pipeline
        self._files = [self._split(index, job) for index, job in enumerate(jobs)]
        self._by_part: Final = {part.name: file for file in self._files for part in file.parts}
        self.jobs: Final = [part for file in self._files for part in file.parts]
        """The modules; each is named after its file and its number in it, from 1."""

    def _split(self, index: int, job: Job) -> _File:
        plugin = format_of(job.source, pipeline=self._pipeline).plugin
        if not plugin.separator:
            raise InputError(f"--split-input-file cannot split {job.source}: {job.suffix} files contain one module")
        try:
            texts = job.source.read_text("utf-8").split(plugin.separator)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {job.source}: {error}") from None
        parts: list[Job] = []
        padding: list[str] = []
        lines = 0
        for number, text in enumerate(texts, 1):
            name = f"{index}-{number}{job.suffix}"
            source, target = self._folder / name, self._folder / f"result-{name}"
            # Errors then give the line in the whole file.
            padding.append("\n" * lines)
            source.write_text(padding[-1] + text, "utf-8")
            lines += text.count("\n")
            parts.append(Job(f"{job.name}:{number}", source, target))
        return _File(job, plugin.separator, parts, padding, missing=len(parts))

    @property
    def unwritten(self) -> list[Path]:
        """The files without a result, because a module in them failed."""
        return [file.job.target for file in self._files if file.failed]

    def renamed(self, text: str) -> str:
        """Return a text with the names of files in place of those of their parts."""
        if str(self._folder) in text:
            for file in self._files:
                for part in file.parts:
                    text = text.replace(str(part.source), str(file.job.source))
        return text

    def shown(self, path: Path) -> Path:
        """Return the file that a path is a part of, or else the path."""
        for file in self._files:
            for part in file.parts:
                if path in (part.source, part.target):
                    return file.job.source if path == part.source else file.job.target
        return path

    def finish(self, result: JobResult) -> None:
        """Join the results of a file if this was the last one.

        Raises:
            OSError: if the file cannot be written.

        """
        file = self._by_part[result.job.name]
        file.missing -= 1
        if result.error is not None:
            file.failed.add(result.job.name)
        if file.missing or file.failed:
            return
        texts = [self._result_of(part, padding) for part, padding in zip(file.parts, file.padding, strict=True)]
        try:
            write_whole(file.job.target, f"{file.separator}\n".join(texts))
        except OSError as error:
            raise named(error, file.job.target) from error

    def _result_of(self, part: Job, padding: str) -> str:
        """Return the result of a module, as it would be without the file of its own."""
        text = part.target.read_text("utf-8")
        if padding and text.startswith(padding):
            # It is unchanged, and follows the line of the separator.
            text = text.removeprefix(padding).removeprefix("\n")
        return self.renamed(text)


@contextmanager
def split_files(jobs: Sequence[Job], pipeline: str | None) -> Generator[SplitFiles]:
    """Yield the modules of files as jobs, whose files are temporary."""
    with TemporaryDirectory(prefix="apass-") as folder:
        yield SplitFiles(jobs, pipeline, Path(os.path.realpath(folder)))


def with_diagnostic(result: JobResult) -> JobResult:
    """Write the error of a failed module as its result, and return a success."""
    if result.error is None:
        return result
    # The text is for a file that a test checks, so it leaves out what changes with the place.
    notes = [note for note in notes_of(result.error) if not is_whereabouts(note)]
    text = "".join(f"{line}\n" for line in (text_of(result.error), *notes))
    write_whole(result.job.target, text)
    return replace(result, error=None, after=result.before, remark="the error was written", bytes_after=len(text))
