"""`read_upload`: reads the model of a request, into memory or a temporary file."""

import os
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, BinaryIO, Final

import anyio
from anyio.to_thread import run_sync
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from apass.batch.formats import suffixes
from apass.service.errors import JobsUnavailableError, ModelTooLargeError
from apass.service.http.problems import BadRequestError, SlowRequestError, UnsupportedMediaTypeError
from apass.util.printable import printable

__all__ = ["BodyReader", "Upload", "clean_name", "media_type", "read_body", "read_upload", "suffix_of_type"]

IN_MEMORY: Final = 1 << 20
"""Bytes that are kept in memory; a larger body is written to a file."""

SLOWEST: Final = 100_000.0
"""Bytes per second that a client must send on average, beyond the time that every body has."""

FORM_BYTES: Final = 1 << 18
"""Bytes of all fields of a form, besides the model."""

FORM_FIELDS: Final = 100
"""The number of fields of a form."""

FRAMING_BYTES: Final = 1 << 20
"""Bytes of a form that do not belong to the model."""

LONGEST_NAME: Final = 200
"""Characters of the name of a file."""

_ALIASES: Final = {"llvm": "ll", "llvm-ir": "ll", "llvm-bitcode": "bc"}
_TYPES: Final = {".onnx": "application/onnx", ".ll": "application/x-llvm", ".bc": "application/x-llvm-bitcode"}
_PLAIN_ENCODINGS: Final = (b"", b"7bit", b"8bit", b"binary")


@dataclass(slots=True)
class Upload:
    """The model of a request."""

    model: bytes | Path
    """Its bytes, or the temporary file that contains them."""
    file_name: str = ""
    """The name of the file at the client, without its folders; empty if it is unknown."""
    suffix: str | None = None
    """The suffix of the content type."""
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The other fields of the form."""


class BodyReader:
    """Reads the body of a request, within a number of bytes and a time.

    Parameters:
        receive: the channel.
        headers: the headers of the request, with names in lower case.
        limit: the number of bytes; None for no limit.
        seconds: the time that a body has, besides one second for each `SLOWEST` bytes.

    Raises:
        ModelTooLargeError: if the header `Content-Length` exceeds the limit.
        UnsupportedMediaTypeError: if the body is compressed.

    """

    def __init__(self, receive: Receive, headers: Mapping[str, str], limit: int | None, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._start = anyio.current_time()
        self._size = 0
        self._is_complete = False
        if headers.get("content-encoding", "identity") != "identity":
            raise UnsupportedMediaTypeError(
                f"the body is encoded with {headers['content-encoding']}; send it as it is, without Content-Encoding"
            )
        length = headers.get("content-length", "")
        if length.isascii() and length.isdecimal():
            self._check(int(length))

    async def read(self) -> bytes:
        """Return the next bytes; none at the end.

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
        return b""

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise ModelTooLargeError(f"the body has more than {self._limit:,} bytes, which is the limit")


async def read_body(reader: BodyReader) -> bytes:
    """Return a whole body, which has a small limit."""
    chunks: list[bytes] = []
    while data := await reader.read():
        chunks.append(data)
    return b"".join(chunks)


@asynccontextmanager
async def read_upload(
    receive: Receive, headers: Mapping[str, str], *, limit: int | None, seconds: float, folder: Path | None = None
) -> AsyncGenerator[Upload]:
    """Read the model of a request: its body, or the part `model` of a form.

    A temporary file is removed at the end of the block.

    Parameters:
        receive: the channel of the request.
        headers: its headers, with names in lower case.
        limit: the bytes of the model; None for no limit.
        seconds: the time for the body; see `BodyReader`.
        folder: where the temporary file is created; by default the folder of the system.

    Raises:
        BadRequestError: if the body is empty, or the form is malformed.
        ModelTooLargeError: if the model has too many bytes.
        SlowRequestError: if the body does not arrive in time.
        UnsupportedMediaTypeError: if the body is compressed.
        JobsUnavailableError: if the temporary file cannot be written.
        ClientDisconnect: if the client has closed the connection.

    """
    content_type, options = parse_options_header(headers.get("content-type", ""))
    is_form = content_type == b"multipart/form-data"
    whole = limit + FRAMING_BYTES if is_form and limit is not None else limit
    reader = BodyReader(receive, headers, whole, seconds)
    spool = _Spool(limit, folder)
    try:
        if is_form:
            upload = await _read_form(reader, options.get(b"boundary", b""), spool)
        else:
            while data := await reader.read():
                spool.write(data)
                await spool.flush()
            _, disposition = parse_options_header(headers.get("content-disposition", ""))
            name = clean_name(_text(disposition.get(b"filename", b"")))
            upload = Upload(b"", name, suffix_of_type(_text(content_type)))
        upload.model = await spool.finish()
        if not spool.size:
            raise BadRequestError("the model has no bytes; send the contents of its file as the body of the request")
        yield upload
    finally:
        await spool.discard()


class _Spool:
    """The bytes of a model, in memory or in a file.

    Parameters:
        limit: the number of bytes; None for no limit.
        folder: where the file is created.

    """

    def __init__(self, limit: int | None, folder: Path | None) -> None:
        self.size = 0
        """The number of bytes."""
        self._limit = limit
        self._folder = folder
        self._data = bytearray()
        self._file: BinaryIO | None = None
        self._path: Path | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes.

        Raises:
            ModelTooLargeError: if there are too many.

        """
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise ModelTooLargeError(f"the model has more than {self._limit:,} bytes, which is the limit")
        self._data += data

    async def flush(self) -> None:
        """Write what is in memory to the file, if it is much."""
        if len(self._data) > IN_MEMORY:
            await self._write()

    async def finish(self) -> bytes | Path:
        """Return all bytes, or the file that contains them."""
        if self._path is None:
            return bytes(self._data)
        await self._write()
        return self._path

    async def discard(self) -> None:
        """Remove the file."""
        if self._file is None:
            return
        with anyio.CancelScope(shield=True):
            await run_sync(self._remove)

    async def _write(self) -> None:
        data, self._data = self._data, bytearray()
        # A thread cannot be cancelled: the file must not be removed before it has ended.
        with anyio.CancelScope(shield=True):
            await run_sync(self._append, data)

    def _append(self, data: bytearray) -> None:
        try:
            if self._file is None:
                number, path = tempfile.mkstemp(".part", "apass-upload-", self._folder)
                self._file, self._path = os.fdopen(number, "wb"), Path(path)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            is_full = error.errno in (ENOSPC, EDQUOT)
            message = f"the model cannot be written to a temporary file: {error}"
            raise JobsUnavailableError(message, is_full=is_full) from error

    def _remove(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


async def _read_form(reader: BodyReader, boundary: bytes, spool: _Spool) -> Upload:
    """Read a form whose part `model` goes to a file."""
    if not boundary:
        raise BadRequestError("the content type multipart/form-data has no boundary; let the HTTP library set it")
    form = _Form(spool)
    try:
        parser = MultipartParser(boundary, form.callbacks())
        while data := await reader.read():
            parser.write(data)
            await spool.flush()
        parser.finalize()
    except FormParserError as error:
        raise BadRequestError(f"the form cannot be parsed: {error}") from error
    if not form.has_ended:
        raise BadRequestError("the form ends within a part; expected the closing boundary")
    if not form.has_model:
        raise BadRequestError("the form has no part named 'model'; expected the bytes of the model there")
    return Upload(b"", form.file_name, form.suffix, form.fields)


class _Form:
    """Receives the parts of a form from the parser."""

    def __init__(self, spool: _Spool) -> None:
        self.has_ended = False
        self.has_model = False
        self.file_name = ""
        self.suffix: str | None = None
        self.fields: list[tuple[str, str]] = []
        self._spool = spool
        self._headers: dict[bytes, bytes] = {}
        self._name = b""
        self._value = b""
        self._part = ""
        self._data = bytearray()
        self._size = 0

    def callbacks(self) -> Any:
        """Return the callbacks of the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._add_name,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._headers, self._data = {}, bytearray()
        self._name = self._value = b""

    def _add_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._part = _text(options.get(b"name", b""))
        if self._headers.get(b"content-transfer-encoding", b"").lower() not in _PLAIN_ENCODINGS:
            raise BadRequestError("the form has a part with a transfer encoding; send the bytes as they are")
        if self._part == "model":
            if self.has_model:
                raise BadRequestError("the form has two parts named 'model'; submit each model in its own request")
            self.has_model = True
            self.file_name = clean_name(_text(options.get(b"filename", b"")))
            self.suffix = suffix_of_type(_text(parse_options_header(self._headers.get(b"content-type", b""))[0]))
        elif b"filename" in options:
            raise BadRequestError(f"the form has a file named {self._part[:100]!r}; expected the model in 'model'")
        elif len(self.fields) == FORM_FIELDS:
            raise BadRequestError(f"the form has more than {FORM_FIELDS} fields")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._part == "model":
            self._spool.write(memoryview(data)[start:end])
            return
        self._size += end - start
        if self._size > FORM_BYTES:
            raise BadRequestError(f"the fields of the form have more than {FORM_BYTES:,} bytes")
        self._data += data[start:end]

    def _end(self) -> None:
        if self._part != "model":
            try:
                self.fields.append((self._part, self._data.decode()))
            except UnicodeDecodeError as error:
                raise BadRequestError(f"the field {self._part[:100]!r} is not in UTF-8: {error}") from error

    def _finish(self) -> None:
        self.has_ended = True


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
    if suffix not in suffixes():
        return "application/octet-stream"
    return _TYPES.get(suffix, f"application/x-{suffix.removeprefix('.')}")


def _text(data: bytes) -> str:
    """Return a text of a header: UTF-8, or Latin-1 from an old client."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
