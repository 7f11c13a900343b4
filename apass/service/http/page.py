"""`page_files`: the files of the live page and of its frame for reports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from gzip import compress
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["PAGE_POLICY", "StaticFile", "page_files"]

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The `Content-Security-Policy` of the page: no script or style within it is used."""

FRAME_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
"""The policy of the frame: its scripts have an origin of their own, and cannot use the service or read the token."""

FOREVER: Final = "public, max-age=31536000, immutable"
"""How long a file may be cached whose name contains the digest of its content."""

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>apass</title>
<link rel="icon" href="{icon}">
<link rel="stylesheet" href="{style}">
<script src="{script}" defer></script>
</head>
<body>
<div id="app" data-report="{frame}"><noscript>This page needs JavaScript. The HTTP interface does not: see
<a href="v1/openapi.json">its description</a>.</noscript></div>
</body>
</html>
"""

_FRAME: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Report</title>
<link rel="stylesheet" href="{style}">
<script src="{script}" defer></script>
</head>
<body>
<div id="app"></div>
</body>
</html>
"""

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='%234f46e5'%3E"
    "%3Crect x='2' y='4' width='13' height='4' rx='2'/%3E%3Crect x='6' y='10' width='16' height='4' rx='2' "
    "opacity='.7'/%3E%3Crect x='4' y='16' width='10' height='4' rx='2' opacity='.45'/%3E%3C/svg%3E"
)

_TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file that needs no token: its content is the same for everybody."""

    data: bytes
    """The content."""
    packed: bytes
    """The content, compressed by gzip."""
    media_type: str
    """The content type."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headers of the answer."""
    is_folder: bool = False
    """Whether the addresses in it are relative to a path that ends with a slash."""

    async def get(self, request: Request) -> Response:
        """Return the content."""
        # Some applications serve the root of a mount without its slash, and remove their prefix from `path` only.
        last = request.scope.get("raw_path", b"").partition(b"?")[0].rpartition(b"/")[2]
        if self.is_folder and last:
            # The dot keeps the address on this server, whatever the name is.
            return Response(None, 307, {"location": f"./{last.decode('latin-1')}/"})
        headers = {"vary": "accept-encoding", **self.headers}
        accepted = [item.partition(";")[0].strip() for item in request.headers.get("accept-encoding", "").split(",")]
        if "gzip" not in accepted:
            return Response(self.data, 200, headers, self.media_type)
        return Response(self.packed, 200, {**headers, "content-encoding": "gzip"}, self.media_type)


@cache
def page_files() -> Mapping[str, StaticFile]:
    """Return the files by path.

    Names contain the digest of the content, so that browsers keep them until a new version is installed. Addresses are
    relative: the application may be mounted below any path.
    """
    result: dict[str, StaticFile] = {}

    def add(name: str, data: bytes, **headers: str) -> str:
        stem, _, suffix = name.rpartition(".")
        path = f"assets/{stem}-{sha256(data).hexdigest()[:16]}.{suffix}"
        result[f"/{path}"] = _file(data, _TYPES[suffix], {"cache-control": FOREVER} | dict(_dashed(headers)))
        return path

    # To a document in a sandbox, this server is another origin.
    report = files("apass.instruments.report") / "assets"
    shared = {"cross_origin_resource_policy": "cross-origin"}
    frame = add(
        "report.html",
        _FRAME.format(
            style=_beside(add("report.css", (report / "report.css").read_bytes(), **shared)),
            script=_beside(add("report.js", (report / "report.js").read_bytes(), **shared)),
        ).encode(),
        content_security_policy=FRAME_POLICY,
        # A page in a sandbox must not have one.
        cross_origin_opener_policy="",
    )
    live = files("apass.service.http") / "assets"
    page = _PAGE.format(
        icon=_ICON,
        style=add("live.css", (live / "live.css").read_bytes()),
        script=add("live.js", (live / "live.js").read_bytes()),
        frame=frame,
    )
    result["/"] = _file(page.encode(), _TYPES["html"], {"content-security-policy": PAGE_POLICY}, is_folder=True)
    return result


def _file(data: bytes, media_type: str, headers: Mapping[str, str], *, is_folder: bool = False) -> StaticFile:
    return StaticFile(data, compress(data, mtime=0), media_type, headers, is_folder)


def _dashed(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name.replace("_", "-"), value) for name, value in headers.items())


def _beside(path: str) -> str:
    """Return the address of a file, for another one in the same folder."""
    return path.rpartition("/")[2]
