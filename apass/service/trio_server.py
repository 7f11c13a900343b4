"""`serve_on_trio`: runs an ASGI application on trio, with parts of hypercorn.

Its own server keeps a connection whose client has left until the time of an idle one is over. If a client sends a
damaged body, it ends.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskStatus

from apass.errors import MissingExtraError

try:
    import trio
    from hypercorn.app_wrappers import ASGIWrapper
    from hypercorn.config import Config
    from hypercorn.events import Closed, Event, RawData, Updated
    from hypercorn.trio.lifespan import Lifespan
    from hypercorn.trio.tcp_server import TCPServer
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import ConnectionState
except ImportError as _error:
    raise MissingExtraError(f"the server on trio needs hypercorn ({_error}): pip install 'apass[serve]'") from _error

__all__ = ["serve_on_trio"]

_LOGGER: Final = logging.getLogger("hypercorn.error")

LATE_SECONDS: Final = 1.0
"""Seconds after the grace in which connections are closed in an orderly way."""


class _Connection(TCPServer):
    """A connection that ends when its client has left."""

    _has_left = False

    async def protocol_send(self, event: Event) -> None:
        """Send data, or change the state of the connection."""
        if isinstance(event, RawData):
            await self._send(event.data)
        elif not (self._has_left and isinstance(event, Updated)):  # it waits for no further request
            await super().protocol_send(event)

    async def _send(self, data: bytes) -> None:
        # hypercorn shields it from cancellation, so that the time of a client that does not read could not be limited.
        is_whole = False
        try:
            async with self.send_lock:
                await self.stream.send_all(data)
            is_whole = True
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self.protocol.handle(Closed())
        finally:
            if not is_whole:
                self.shut_down()

    async def _read_data(self) -> None:
        await super()._read_data()
        self._has_left = True
        await self.idle_task.stop()

    def shut_down(self) -> None:
        """Let tasks that read from it, or write to it, fail."""
        with suppress(OSError):
            self.stream.socket.shutdown(socket.SHUT_RDWR)


async def serve_on_trio(
    app: Callable[..., Awaitable[None]],
    sock: socket.socket,
    *,
    stop: anyio.Event,
    grace: float,
    keep_alive: float,
    task_status: TaskStatus[None],
) -> None:
    """Serve an ASGI application until `stop` is set, or the caller is cancelled.

    Parameters:
        app: the application.
        sock: a socket that listens, which is closed at the end.
        stop: ends the server.
        grace: the seconds for requests that run.
        keep_alive: the seconds for which an idle connection is kept.
        task_status: `started` is called when the application has started.

    """
    config = Config()
    config.errorlog = _LOGGER
    config.include_server_header = False
    config.keep_alive_timeout = keep_alive
    config.keep_alive_max_requests = 10**9
    state: dict[str, Any] = {}
    wrapped, context = ASGIWrapper(cast("Any", app)), WorkerContext(None)
    lifespan = Lifespan(wrapped, config, state)
    connections: set[_Connection] = set()
    finished = anyio.Event()

    async def handle(stream: Any) -> None:
        connection = _Connection(wrapped, config, context, ConnectionState(state.copy()), stream)
        connections.add(connection)
        try:
            await connection.run()
        except Exception as error:
            # hypercorn raises errors of h11 if a client sends a damaged body. They must not end the server.
            _LOGGER.warning("a connection has failed: %r", error, exc_info=_LOGGER.isEnabledFor(logging.DEBUG))
        finally:
            connections.discard(connection)

    async def end_late() -> None:
        try:
            await stop.wait()
            await anyio.sleep(grace)
        finally:
            # hypercorn shields the end of an idle connection from cancellation.
            with anyio.move_on_after(LATE_SECONDS, shield=True):
                await finished.wait()
            for connection in tuple(connections):
                connection.shut_down()

    async with anyio.create_task_group() as group:
        await group.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        group.start_soon(end_late)
        try:
            async with trio.open_nursery() as nursery:
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
                async with listener, anyio.create_task_group() as acceptor:
                    acceptor.start_soon(partial(trio.serve_listeners, handle, [listener], handler_nursery=nursery))
                    task_status.started()
                    await stop.wait()
                    acceptor.cancel_scope.cancel()
                await context.terminated.set()
                nursery.cancel_scope.deadline = anyio.current_time() + grace
        finally:
            finished.set()
        await lifespan.wait_for_shutdown()
        group.cancel_scope.cancel()
