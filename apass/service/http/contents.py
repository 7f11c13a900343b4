"""`blob_response`: the bytes of a model, a result or a report as an answer."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final, Self
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from apass.batch.formats import suffixes
from apass.service.http.uploads import media_type
from apass.service.job_store import CHUNK, JobStore, missing_blob
from apass.service.jobs import is_file_kind
from apass.util.printable import printable

__all__ = ["blob_response", "file_name"]

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))")


async def blob_response(
    request: Request, store: JobStore, digest: str, size: int, *, name: str, kind: str, data: bytes | None = None
) -> Response:
    """Return an answer that streams a blob from the store.

    It has an `ETag`, and supports `HEAD`, `If-None-Match` and a single `Range`.

    Parameters:
        request: the request.
        store: the store.
        digest: the digest of the blob.
        size: its size.
        name: the label of the job, from which the client gets the name of a file.
        kind: the suffix of model files.
        data: the bytes of the blob, if they are known, and at most CHUNK.

    Raises:
        NoResultError: if the blob has expired.
        HTTPException: if the range is out of bounds.

    """
    name, tag = file_name(name, kind), f'"{digest}"'
    headers = {
        "etag": tag,
        "accept-ranges": "bytes",
        "content-disposition": f"attachment; {_disposition(name)}",
    }
    # For other methods, such as a submission that waits, these headers have no meaning.
    conditions: Mapping[str, str] = request.headers if request.method in ("GET", "HEAD") else {}
    if _matches(conditions.get("if-none-match"), tag):
        return Response(None, 304, headers)
    first, last, status = 0, size - 1, 200
    # A range of another version of the file would be a mixture.
    found = _RANGE.fullmatch(conditions.get("range", "")) if conditions.get("if-range") in (None, tag) else None
    # A range whose end comes before its start is ignored.
    if found is not None and int(found[1] or 0) <= int(found[2] or found[1] or 0):
        first = int(found[1]) if found[1] else max(0, size - int(found[3]))
        last = min(last, int(found[2] or last))
        if first >= size:
            detail = f"{name} has {size:,} bytes, and none in the range {found[0]!r}"
            raise HTTPException(416, detail, {"content-range": f"bytes */{size}", "accept-ranges": "bytes"})
        status = 206
        headers["content-range"] = f"bytes {first}-{last}/{size}"
    headers["content-length"] = str(last - first + 1)
    try:
        # The headers must not be sent before it is known that there is a body.
        chunk = await store.read(digest, first // CHUNK) if data is None else data
    except KeyError as error:
        raise missing_blob(name, error) from None
    if request.method == "HEAD":
        return Response(None, status, headers, media_type(kind))
    start, length = first % CHUNK, last - first + 1
    if len(chunk) >= start + length:
        # A stream starts a task and sends two messages more, which takes longer than a small result itself.
        return Response(chunk[start : start + length], status, headers, media_type(kind))
    return StreamingResponse(_BlobBytes(store, digest, chunk, first, last), status, headers, media_type(kind))


class _BlobBytes:
    """The bytes of a blob from `first` to `last`, for `async for`.

    Parameters:
        store: the store.
        digest: the digest of the blob.
        chunk: the chunk that contains the first byte.
        first: the index of the first byte.
        last: the index of the last byte.

    """

    # No async generator: if the client leaves, nothing would close it, about which trio warns.

    def __init__(self, store: JobStore, digest: str, chunk: bytes, first: int, last: int) -> None:
        self._store = store
        self._digest = digest
        self._chunk: bytes | None = chunk
        self._index, self._start = divmod(first, CHUNK)
        self._left = last - first + 1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes."""
        if not self._left:
            raise StopAsyncIteration
        chunk = await self._store.read(self._digest, self._index) if self._chunk is None else self._chunk
        part = chunk[self._start : self._start + self._left]
        if not part:
            raise OSError(f"the blob {self._digest} in the store is too short")
        self._chunk, self._start = None, 0
        self._index += 1
        self._left -= len(part)
        return part


def _matches(header: str | None, tag: str) -> bool:
    """Return whether the header `If-None-Match` contains a tag."""
    if header is None:
        return False
    tags = [item.strip().removeprefix("W/") for item in header.split(",")]
    return "*" in tags or tag in tags


def file_name(name: str, kind: str) -> str:
    """Return the name of a file for a job with a label, with the suffix of its kind.

    >>> file_name("lenet.onnx", ".mlir"), file_name("../a b", ".onnx"), file_name("..", "builtins:dict")
    ('lenet.mlir', 'a b.onnx', 'model')
    """
    path = PurePosixPath(printable(name))
    last = path.name if path.name not in ("", "..") else "model"
    if not is_file_kind(kind):
        return last
    return f"{path.stem if path.suffix.lower() in suffixes() else last}{kind}"


def _disposition(name: str) -> str:
    """Return the parameters of `Content-Disposition` for the name of a file."""
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)
    if plain == name:
        return f'filename="{name}"'
    return f"filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
