"""Models on standard input, and results on standard output or a device.

They are `-` on the command line, or a path such as `/dev/null`.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from apass.batch.formats import suffixes
from apass.cli.errors import rename_in_error, text_of
from apass.cli.inputs import Job
from apass.cli.output_files import OutputError
from apass.errors import InputError, did_you_mean
from apass.util.files import is_device, naming

__all__ = ["STREAM", "DataOutput", "ModelStreams", "model_streams", "reserved_output", "suffix_of_format"]

STREAM: Final = "-"
"""The name of standard input among the models, and of standard output as `-o`."""

STANDARD_INPUT: Final = "standard input"
"""The name of standard input in errors."""

MOST_BYTES: Final = 2**31
"""Bytes that are read from standard input; a protobuf message has fewer."""

_STDERR: Final = 2
"""The file descriptor of standard error, also if Python found it closed."""

_CHUNK: Final = 2**20
"""Bytes that are copied at a time."""


def suffix_of_format(name: str) -> str:
    """Return the suffix of the model files that `--from` names, such as `.onnx`.

    Raises:
        InputError: if there is no such format.

    """
    known = suffixes()
    suffix = f".{name.removeprefix('.').lower()}"
    if suffix not in known:
        names = [other.removeprefix(".") for other in known]
        hint = did_you_mean(name, names) or f"; expected one of {', '.join(names)}"
        raise InputError(f"--from: no model format is named {name!r}{hint}")
    return suffix


class _Stream(Protocol):
    """A binary stream."""

    def write(self, data: bytes, /) -> int | None: ...
    def isatty(self) -> bool: ...


class FileParts(Protocol):
    """Temporary files that are parts of the models."""

    def renamed(self, text: str) -> str:
        """Return a text with the names of files in place of those of their parts."""
        ...

    def shown(self, path: Path) -> Path:
        """Return the file that a path is a part of, or else the path."""
        ...


class DataOutput:
    """Standard output, reserved for the data that a program reads."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    @property
    def is_terminal(self) -> bool:
        """Whether the data would be shown on a terminal."""
        return self._stream.isatty()

    def write(self, data: bytes) -> None:
        """Write all of `data` without a buffer, so that it is complete when this returns."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._stream.write(bytes(rest)) :]


@contextmanager
def reserved_output() -> Generator[DataOutput]:
    """Yield standard output, and redirect all other output to standard error.

    The redirection includes libraries that write to the file descriptor, and worker processes.

    Raises:
        InputError: if standard output is closed.

    """
    stream = sys.stdout
    if stream is None:
        raise InputError("standard output is closed; open it, or name a file with -o")
    try:
        descriptor = stream.fileno()
    except OSError:  # a test has replaced it
        with redirect_stdout(sys.stderr):
            yield DataOutput(stream.buffer)
        return
    stream.flush()
    # Unbuffered: a buffer would be written at exit, and fail a second time if the reader has gone.
    with os.fdopen(os.dup(descriptor), "wb", buffering=0) as output:
        os.dup2(_STDERR, descriptor)
        try:
            with redirect_stdout(sys.stderr):
                yield DataOutput(output)
        finally:
            stream.flush()
            os.dup2(output.fileno(), descriptor)


class ModelStreams:
    """The models and the output of a command line, with files in place of streams.

    Parameters:
        models: the models that the command line names.
        output: the value of `-o`.
        folder: a temporary folder for the files; None if there is no stream.
        reads: whether a model is read from standard input.
        writes: whether the result is written to standard output.
        suffix: the suffix of the model on standard input.

    """

    def __init__(
        self, models: Sequence[str], output: Path | None, folder: Path | None, *, reads: bool, writes: bool, suffix: str
    ) -> None:
        self.reads: Final = reads
        """Whether a model is read from standard input."""
        self.writes: Final = writes
        """Whether the result is written to standard output."""
        self.device: Final = output if output is not None and is_device(output) else None
        """The device, pipe or open descriptor that the result is written to; None if `-o` names none."""
        self._folder = folder
        self._source = None if folder is None else folder / f"stdin{suffix}"
        self.models: Final = [str(self._source)] if reads else list(models)
        """The models, with the path of a file in place of `-`."""
        self.output: Final = folder / "result" if folder is not None and (writes or self.device) else output
        """The output, with the path of a folder in place of a stream."""
        self.parts: FileParts | None = None
        """The parts of the files, if `--split-input-file` is used."""

    def read(self) -> None:
        """Copy standard input to the file that replaces it.

        Raises:
            InputError: if standard input is a terminal, empty, too large or cannot be read.

        """
        if not self.reads:
            return
        assert self._source is not None, "there is a folder for the model"
        if sys.stdin is None:
            raise InputError("standard input is closed; expected a model")
        if sys.stdin.isatty():
            raise InputError("standard input is a terminal; redirect it, as in `apass opt - --from onnx < model.onnx`")
        size = 0
        with self._source.open("wb") as file:
            while data := _read_chunk():
                size += len(data)
                if size > MOST_BYTES:
                    raise InputError(f"standard input has more than {MOST_BYTES:,} bytes; name the file of the model")
                file.write(data)
        if not size:
            raise InputError("standard input is empty; expected a model")

    def explain(self, error: BaseException) -> None:
        """Replace the temporary files in an error, its causes and the errors of a group.

        If a model on standard input has external weights, its error gets a note.
        """
        if self._folder is None and self.parts is None:
            return
        rest = text_of(error).replace(str(self._source), "")
        if self.reads and self.parts is None and f"{self._folder}{os.sep}" in rest:
            error.add_note("a model on standard input cannot have external weights; name its file instead")
        rename_in_error(error, self.renamed)

    def renamed(self, text: str) -> str:
        """Return a text with `standard input` in place of the file that replaces it."""
        if self.parts is not None:
            text = self.parts.renamed(text)
        if self._folder is None:
            return text
        return text.replace(str(self._source), STANDARD_INPUT).replace(f"{self._folder}{os.sep}", "")

    def shown(self, path: Path) -> str:
        """Return a path, or the stream in place of which a file is used."""
        if self.parts is not None:
            path = self.parts.shown(path)
        if self._folder is None or self._folder not in path.parents:
            return str(path)
        return STREAM if path == self._source or self.device is None else str(self.device)

    def check_number(self, jobs: Sequence[Job]) -> None:
        """Raise InputError if several results would be written to one stream."""
        if (self.writes or self.device) and len(jobs) > 1:
            shown = self.device or STREAM
            raise InputError(f"-o {shown} writes one model, got {len(jobs)}; name one, or a folder with -o DIR")

    def send(self, job: Job, output: DataOutput | None) -> None:
        """Write the result to its stream; do nothing if it has none.

        Raises:
            OutputError: if it has several files, or is binary and would be shown on a terminal.
            OSError: if the stream cannot be written.

        """
        if self.device is not None:
            with naming(self.device), self.device.open("ab", buffering=0) as stream:
                self._send(job, DataOutput(stream), str(self.device))
        elif self.writes and output is not None:
            self._send(job, output, STREAM)

    def _send(self, job: Job, output: DataOutput, shown: str) -> None:
        if len(list(job.target.parent.iterdir())) > 1:
            advice = "name a file, as in -o result.onnx"
            raise OutputError(f"-o {shown} cannot write a model with external weights; {advice}")
        with job.target.open("rb") as file:
            if output.is_terminal and _is_binary(file.read(_CHUNK)):
                advice = "redirect it, or use -o result.onnx"
                raise OutputError(f"-o {shown} would write a binary model to the terminal; {advice}")
            file.seek(0)
            while data := file.read(_CHUNK):
                output.write(data)


@contextmanager
def model_streams(
    models: Sequence[str], output: Path | None, source_format: str | None, *, needs_files: Sequence[str], writes: bool
) -> Generator[ModelStreams]:
    """Yield the models and the output of a command, with files in place of streams.

    Parameters:
        models: the models that the command line names.
        output: the value of `-o`.
        source_format: the value of `--from`.
        needs_files: the options in use that cannot be combined with `-`.
        writes: whether the command writes a result; that of standard input is written to standard output by default.

    Raises:
        InputError: if `-` cannot be combined with the other models or options, or standard input cannot be read.

    """
    reads = STREAM in models
    if reads and len(models) > 1:
        raise InputError(f"{STREAM} is standard input, and must be the only model; got {len(models)}")
    if reads and source_format is None:
        names = ", ".join(suffix.removeprefix(".") for suffix in suffixes())
        raise InputError(
            f"{STREAM} is standard input, whose format no suffix shows; add --from FORMAT with one of {names}"
        )
    if source_format is not None and not reads:
        raise InputError(f"--from {source_format} is for a model on standard input; write {STREAM} in place of it")
    suffix = "" if source_format is None else suffix_of_format(source_format)
    is_output = output == Path(STREAM) or (reads and output is None and writes)
    if not (reads or is_output or (output is not None and is_device(output))):
        yield ModelStreams(models, output, None, reads=False, writes=False, suffix="")
        return
    for option in needs_files:
        shown = STREAM if reads or is_output else output
        raise InputError(f"{option} needs files, and cannot be used with {shown}; leave one of them out")
    with TemporaryDirectory(prefix="apass-") as folder:
        streams = ModelStreams(models, output, Path(folder), reads=reads, writes=is_output, suffix=suffix)
        streams.read()
        yield streams


def _read_chunk() -> bytes:
    try:
        return sys.stdin.buffer.read(_CHUNK)
    except OSError as error:
        raise InputError(f"cannot read standard input: {error.strerror}") from None


def _is_binary(data: bytes) -> bool:
    """Return whether the start of a file is no text."""
    return b"\0" in data or any(byte < 32 and byte not in b"\t\n\r" for byte in data)
