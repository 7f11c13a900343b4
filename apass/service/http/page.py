"""The files of the live page."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["PAGE_POLICY", "StaticFile", "page_files"]

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The `Content-Security-Policy` of the page: no inline script, and no other server."""

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""The content types of the files that are served. Others in the folder are not."""


class StaticFile:
    """The handler of a file in memory.

    Parameters:
        data: its bytes.
        content_type: its type.

    """

    def __init__(self, data: bytes, content_type: str) -> None:
        self._data = data
        self._tag = f'"{sha256(data).hexdigest()[:32]}"'
        self._type = content_type

    async def get(self, request: Request) -> Response:
        """Return the file."""
        # A browser asks each time, so that a new version of the page never uses an old script.
        headers = {"etag": self._tag, "cache-control": "no-cache", "content-security-policy": PAGE_POLICY}
        if self._tag in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        return Response(self._data, 200, headers, self._type)


def page_files(folder: Traversable | None = None) -> Mapping[str, StaticFile]:
    """Return the files of the page by path.

    `index.html` is at `/`, and others are below `/assets/`.

    Parameters:
        folder: the folder of the files; by default that of the package.

    """
    folder = files("apass.service.http") / "assets" if folder is None else folder
    if not folder.is_dir():
        return {}
    result: dict[str, StaticFile] = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in TYPES and file.is_file():
            path = "/" if file.name == "index.html" else f"/assets/{file.name}"
            result[path] = StaticFile(file.read_bytes(), TYPES[suffix])
    return result
