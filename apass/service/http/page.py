"""`page_routes`: the live page, its files, and its frame for reports."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["page_routes"]

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

_SHARED: Final = {"cross-origin-resource-policy": "cross-origin"}

_HEADERS: Final[Mapping[str, Mapping[str, str]]] = {
    "report.css": _SHARED,
    "report.js": _SHARED,
    # A page in a sandbox must not have the opener policy of other answers.
    "report.html": {"content-security-policy": FRAME_POLICY, "cross-origin-opener-policy": ""},
}
"""The headers of files. To a document in a sandbox, this server is another origin."""


class _Assets(StaticFiles):
    """The files of the page and of reports."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return a file, about which the browser asks each time."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update({"cache-control": "no-cache", **_HEADERS.get(Path(full_path).name, {})})
        return response


def page_routes() -> Sequence[BaseRoute]:
    """Return the routes. Their addresses are relative, for any mount path."""
    assets = _Assets(packages=[("apass.service.http", "assets"), ("apass.instruments.report", "assets")])
    return [
        Route("/", _page),
        Mount("/assets", assets, middleware=[Middleware(GZipMiddleware)]),
    ]


async def _page(request: Request) -> Response:
    """Return the page."""
    # Some applications serve the root of a mount without its slash, and remove their prefix from `path` only.
    last = request.scope.get("raw_path", b"").partition(b"?")[0].rpartition(b"/")[2]
    if last:
        # The dot keeps the address on this server, whatever the name is.
        return Response(None, 307, {"location": f"./{last.decode('latin-1')}/"})
    return FileResponse(
        Path(__file__).with_name("assets") / "live.html", headers={"content-security-policy": PAGE_POLICY}
    )
