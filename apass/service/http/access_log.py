"""`AccessLog`: one line of JSON for each request."""

import json
import logging
import re
from time import perf_counter, time
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apass.service.http.security import SENDER
from apass.util.text import shorten

__all__ = ["LOGGER", "AccessLog"]

LOGGER: Final = logging.getLogger("apass.access")
"""The logger of requests. Its records are at the level INFO, and have the fields as the attribute `fields`."""

LONGEST: Final = 300
"""Characters of a value that a client has chosen."""

_JOB: Final = re.compile(r"/v1/jobs/([0-9a-f]{32})")
"""The id of a job in a path."""


class AccessLog:
    """An ASGI middleware that logs each request when its answer ends.

    The fields are:

    - `time`, in seconds since 1970, and `seconds` until the end of the answer;
    - `method`, `path`, `status`, `client`, and `bytes` of the answer;
    - `tenant` of the sender, `job`, and `trace`, the `traceparent` of the request, if there are any;
    - `aborted`, if the client left before the end, or the answer raised an error.

    The query is not logged: it may contain the text of a pipeline. Nothing is done if the logger is disabled.

    Parameters:
        app: the application.

    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or not LOGGER.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        sender: dict[str, Any] = {}
        start, status, size, location, has_ended = perf_counter(), None, 0, "", False

        async def observe(message: Message) -> None:
            nonlocal status, size, location, has_ended
            if message["type"] == "http.response.start":
                status = message["status"]
                location = Headers(raw=list(message.get("headers", ()))).get("location", "")
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)
            has_ended = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app({**scope, SENDER: sender}, receive, observe)
        finally:
            job = _JOB.search(location) or _JOB.search(scope["path"])
            fields = {
                "time": round(time(), 6),
                "method": scope["method"],
                "path": shorten(scope["path"], LONGEST),
                "status": status,
                "bytes": size,
                "seconds": round(perf_counter() - start, 6),
                **sender,
                "job": None if job is None else job[1],
                "trace": shorten(Headers(scope=scope).get("traceparent", ""), LONGEST),
                "aborted": None if has_ended else True,
            }
            known = {name: value for name, value in fields.items() if value not in (None, "")}
            LOGGER.info("%s", json.dumps(known), extra={"fields": known})
