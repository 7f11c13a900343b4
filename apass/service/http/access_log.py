"""`AccessLog`: one line of JSON for each request."""

import json
import logging
import re
from time import perf_counter, time
from typing import Any, Final

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
        answer, sender = _Answer(send), dict[str, Any]()
        start = perf_counter()
        try:
            await self._app({**scope, SENDER: sender}, receive, answer.send)
        finally:
            traces = [value for name, value in scope["headers"] if name.lower() == b"traceparent"]
            fields = {
                "time": round(time(), 6),
                "method": scope["method"],
                "path": shorten(scope["path"], LONGEST),
                "status": answer.status,
                "bytes": answer.size,
                "seconds": round(perf_counter() - start, 6),
                **sender,
                "job": _job(answer.location) or _job(scope["path"]),
                "trace": shorten(traces[0].decode("latin-1"), LONGEST) if traces else None,
                "aborted": None if answer.has_ended else True,
            }
            known = {name: value for name, value in fields.items() if value not in (None, "")}
            LOGGER.info("%s", json.dumps(known), extra={"fields": known})


def _job(path: str) -> str | None:
    """Return the id of the job in a path."""
    match = _JOB.search(path)
    return None if match is None else match[1]


class _Answer:
    """Observes the answer to one request."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None
        self.size = 0
        self.has_ended = False
        self.location = ""

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                if name.lower() == b"location":
                    self.location = value.decode("latin-1")
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.has_ended = True
