"""`read_upload`: reads the model of a request, into memory or a temporary file."""

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Self

import anyio
from anyio.to_thread import run_sync
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from apass.batch.formats import suffixes
from apass.service.errors import JobsUnavailableError, ModelTooLargeError
from apass.service.http.parameters import LONGEST
from apass.service.http.problems import BadRequestError, SlowRequestError, UnsupportedMediaTypeError
from apass.service.http.requests import Service
from apass.service.jobs import is_file_kind
from apass.util.printable import printable

__all__ = ["BodyReader", "Upload", "clean_name", "media_type", "read_upload", "suffix_of_type"]

IN_MEMORY: Final = 1 << 20
"""Bytes that are kept in memory; a larger body is written to a file."""

SLOWEST: Final = 100_000.0
"""Bytes per second that a client must send on average, beyond the time that every body has."""

FORM_FIELDS: Final = 100
"""The number of fields of a form."""

FRAMING_BYTES: Final = 1 << 20
"""Bytes of a form that do not belong to the model."""

LONGEST_NAME: Final = 200
"""Characters of the name of a file."""

_ALIASES: Final = {"llvm": "ll", "llvm-ir": "ll", "llvm-bitcode": "bc"}
_TYPES: Final = {".onnx": "application/onnx", ".ll": "application/x-llvm", ".bc": "application/x-llvm-bitcode"}


@dataclass(frozen=True, slots=True)
class Upload:
    """The model of a request."""

    model: bytes | Path
    """Its bytes, or the temporary file that contains them."""
    file_name: str
    """The name of the file at the client, without its folders; empty if it is unknown."""
    suffix: str | None
    """The suffix of the content type."""
    fields: list[tuple[str, str]]
    """The other fields of the form."""


class BodyReader:
    """The body of a request, within a number of bytes and a time, for `async for`.

    Parameters:
        request: the request.
        limit: the number of bytes; None for no limit.
        seconds: the time that a body has, besides one second for each `SLOWEST` bytes.

    Raises:
        ModelTooLargeError: if the header `Content-Length` exceeds the limit.
        UnsupportedMediaTypeError: if the body is compressed.

    """

    # No async generator: if a form is malformed, nothing would close it, about which trio warns.

    def __init__(self, request: Request, limit: int | None, seconds: float) -> None:
        self._receive = request.receive
        self._limit = limit
        self._seconds = seconds
        self._start = anyio.current_time()
        self._size = 0
        self._is_complete = False
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise UnsupportedMediaTypeError(
                f"the body is encoded with {encoding}; send it as it is, without Content-Encoding"
            )
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdecimal():
            self._check(int(length))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes.

        Raises:
            ModelTooLargeError: if there are too many bytes.
            SlowRequestError: if they do not arrive in time.
            ClientDisconnect: if the client has closed the connection.

        """
        while not self._is_complete:
            deadline = self._start + self._seconds + self._size / SLOWEST
            message: Message | None = None
            with anyio.CancelScope(deadline=deadline):
                message = await self._receive()
            if message is None:
                raise SlowRequestError(
                    f"{self._size:,} bytes of the body arrived in {anyio.current_time() - self._start:.0f} s; "
                    f"expected at least {SLOWEST:,.0f} bytes per second after the first {self._seconds:g} s"
                )
            if message["type"] != "http.request":
                raise ClientDisconnect
            self._is_complete = not message.get("more_body", False)
            data: bytes = message.get("body", b"")
            self._size += len(data)
            self._check(self._size)
            if data:
                return data
        raise StopAsyncIteration

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise ModelTooLargeError(f"the body has more than {self._limit:,} bytes, which is the limit")


@asynccontextmanager
async def read_upload(request: Request, service: Service) -> AsyncGenerator[Upload]:
    """Read the model of a request: its body, or the part `model` of a form.

    A temporary file is removed at the end of the block.

    Parameters:
        request: the request.
        service: the limits, and the folder of the temporary file.

    Raises:
        BadRequestError: if the body is empty, or the form is malformed.
        ModelTooLargeError: if the model has too many bytes.
        SlowRequestError: if the body does not arrive in time.
        UnsupportedMediaTypeError: if the body is compressed.
        JobsUnavailableError: if the temporary file cannot be written.
        ClientDisconnect: if the client has closed the connection.

    """
    limit, seconds, folder = service.optimizer.limits.model_bytes, service.body_seconds, service.folder
    content_type = parse_options_header(request.headers.get("content-type", ""))[0]
    if content_type != b"multipart/form-data":
        _, disposition = parse_options_header(request.headers.get("content-disposition", ""))
        name, suffix = clean_name(_text(disposition.get(b"filename", b""))), suffix_of_type(_text(content_type))
        async with _spooled(partial(anext, BodyReader(request, limit, seconds), b""), folder) as model:
            yield Upload(model, name, suffix, [])
        return
    reader: Any = BodyReader(request, None if limit is None else limit + FRAMING_BYTES, seconds)
    parser = MultiPartParser(request.headers, reader, max_files=1, max_fields=FORM_FIELDS, max_part_size=LONGEST)
    try:
        with _writing():
            form = await parser.parse()
    except MultiPartException as error:
        raise BadRequestError(f"the form cannot be parsed: {error.message}") from error
    file = form.get("model")
    try:
        if not isinstance(file, UploadFile):
            raise BadRequestError("the form has no file named 'model'; expected the bytes of the model there")
        if limit is not None and (file.size or 0) > limit:
            raise ModelTooLargeError(f"the model has more than {limit:,} bytes, which is the limit")
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        suffix = suffix_of_type((file.content_type or "").partition(";")[0].strip())
        async with _spooled(partial(file.read, IN_MEMORY), folder) as model:
            yield Upload(model, clean_name(file.filename or ""), suffix, fields)
    finally:
        with anyio.CancelScope(shield=True):
            await form.close()


@asynccontextmanager
async def _spooled(read: Callable[[], Awaitable[bytes]], folder: Path) -> AsyncGenerator[bytes | Path]:
    """Yield the bytes of a model, or a temporary file that contains them.

    Parameters:
        read: returns the next bytes; none at the end.
        folder: the folder of the file.

    Raises:
        BadRequestError: if there are none.
        JobsUnavailableError: if the file cannot be written.

    """
    new_file = partial(tempfile.NamedTemporaryFile, prefix="apass-upload-", suffix=".part", dir=folder)
    file: Any = None
    data = bytearray()
    try:
        while chunk := await read():
            data += chunk
            if len(data) > IN_MEMORY:
                with _writing():
                    file = file or new_file()
                    await _append(file, data)
                data = bytearray()
        if file is not None:
            with _writing():
                await _append(file, data)
        elif not data:
            raise BadRequestError("the model has no bytes; send the contents of its file as the body of the request")
        yield bytes(data) if file is None else Path(file.name)
    finally:
        if file is not None:
            with anyio.CancelScope(shield=True):
                await run_sync(_close, file)


async def _append(file: IO[bytes], data: bytearray) -> None:
    def write() -> None:
        file.write(data)
        file.flush()

    await run_sync(write)


def _close(file: IO[bytes]) -> None:
    # On a full disk, the buffer cannot be written.
    with suppress(OSError):
        file.close()


@contextmanager
def _writing() -> Generator[None]:
    """Raise JobsUnavailableError if a temporary file cannot be written."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (ENOSPC, EDQUOT)
        message = f"the model cannot be written to a temporary file: {error}"
        raise JobsUnavailableError(message, is_full=is_full) from error


def clean_name(name: str) -> str:
    r"""Return the name of a file without its folders.

    Characters that cannot be printed are escaped.

    >>> clean_name("/tmp/../lenet.onnx"), clean_name("C:\\models\\a\x00b.onnx")
    ('lenet.onnx', 'a\\x00b.onnx')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    return printable(last[-LONGEST_NAME:])[-LONGEST_NAME:].strip()


def suffix_of_type(content_type: str) -> str | None:
    """Return the suffix of model files with a content type; None if there is none.

    >>> suffix_of_type("application/onnx"), suffix_of_type("text/x-mlir"), suffix_of_type("application/octet-stream")
    ('.onnx', '.mlir', None)
    """
    name = content_type.lower().partition("/")[2].removeprefix("x-")
    suffix = f".{_ALIASES.get(name, name)}"
    return suffix if suffix in suffixes() else None


def media_type(suffix: str) -> str:
    """Return the content type of model files with a suffix.

    >>> media_type(".onnx"), media_type(".mlir"), media_type("builtins:dict")
    ('application/onnx', 'application/x-mlir', 'application/octet-stream')
    """
    if not is_file_kind(suffix):
        return "application/octet-stream"
    return _TYPES.get(suffix, f"application/x-{suffix.removeprefix('.')}")


def _text(data: bytes) -> str:
    """Return a text of a header: UTF-8, or Latin-1 from an old client."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
