"""`serve`: runs an ASGI application on uvicorn, which needs asyncio."""

import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskStatus

from apass.concurrency.backend import backend_name
from apass.errors import InputError, MissingExtraError
from apass.service.errors import ServiceError

try:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as _error:
    raise MissingExtraError(f"the server needs uvicorn ({_error}): pip install 'apass[serve]'") from _error

__all__ = ["AsgiApp", "innermost", "listen", "listen_unix", "notify_systemd", "serve", "url_of"]

AsgiApp = Callable[[MutableMapping[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Any]
"""An ASGI application."""

KEEP_ALIVE_SECONDS: Final = 75
"""Seconds for which an idle connection is kept, and for which the head of a request may take.

Clients close theirs earlier, after 5 to 60 seconds. Otherwise a request could meet the end of its connection.
"""

UNREAD_SECONDS: Final = 120
"""Seconds after which the system closes a connection whose peer does not read."""

BACKLOG: Final = 2048
"""Connections that wait to be accepted."""


@contextmanager
def listen(host: str, port: int) -> Generator[socket.socket]:
    """Yield a socket that listens on a port of a host.

    Parameters:
        host: a name or an address.
        port: the port; 0 for any that is free.

    Raises:
        InputError: if the host is unknown, or the port is in use or not permitted.

    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"cannot listen on {host}: {getattr(error, 'strerror', None) or error}") from None
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        if os.name == "posix":
            # Otherwise the port of a server that has just ended cannot be used for a minute. Windows means another
            # thing by this option.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit both. Messages are written whole, so that waiting for more delays them only.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        try:
            sock.bind(address)
            # Linux binds two sockets with SO_REUSEADDR to one address, as long as neither of them listens.
            sock.listen(BACKLOG)
        except OSError as error:
            advice = {
                errno.EADDRINUSE: "end the other program, choose another port, or 0 for any that is free",
                errno.EACCES: "ports below 1024 need privileges; choose another port",
                errno.EADDRNOTAVAIL: "this machine does not have the address",
            }.get(error.errno or 0, "choose another address")
            raise InputError(f"cannot listen on {_address_text(host, port)}: {error.strerror}; {advice}") from None
        yield sock


@contextmanager
def listen_unix(path: Path) -> Generator[socket.socket]:
    """Yield a Unix socket, and remove its file at the end.

    The umask decides which users may connect: with the usual one, only the user of the server.

    Raises:
        InputError: if there is another file, a server uses it, or it cannot be created.

    """
    if not hasattr(socket, "AF_UNIX"):
        raise InputError("this system has no Unix sockets; use a host and a port")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            _remove_stale(path)
            sock.bind(str(path))
            sock.listen(BACKLOG)
        except InputError:
            raise
        except OSError as error:
            advice = "create its folder" if isinstance(error, FileNotFoundError) else "choose another path"
            raise InputError(f"cannot listen on {path}: {error.strerror or error}; {advice}") from None
        created = path.stat().st_ino
        try:
            yield sock
        finally:
            with suppress(OSError):
                # Another server may have replaced it.
                if path.stat().st_ino == created:
                    path.unlink()


def _remove_stale(path: Path) -> None:
    """Remove the file of a socket whose server has ended."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InputError(f"cannot listen on {path}: another file has this name; choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
        else:
            raise InputError(f"cannot listen on {path}: another server uses it; end it, or choose another path")


def url_of(sock: socket.socket, host: str = "") -> str:
    """Return the URL of a socket, for `Client`.

    Parameters:
        sock: the socket.
        host: the name to use in place of the address.

    """
    name: Any = sock.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    return f"http://{_address_text(host or str(name[0]), int(name[1]))}"


def _address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve(
    app: AsgiApp,
    sock: socket.socket,
    *,
    stop: anyio.Event,
    grace: float = 3.0,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI application until `stop` is set, or the caller is cancelled.

    The server then accepts no further connections, and requests have `grace` seconds to end. It needs asyncio: on trio,
    serve the application with Hypercorn.

    Parameters:
        app: the application.
        sock: a socket of `listen` or `listen_unix`, which is closed at the end.
        stop: ends the server.
        grace: the seconds for requests that run.
        task_status: `started` is called when the application has started.

    Raises:
        ServiceError: if the application does not start, the server fails, or the event loop is not asyncio.

    """
    if backend_name() != "asyncio":
        raise ServiceError("this server needs asyncio; on trio, serve the application with hypercorn.trio.serve")
    config = uvicorn.Config(
        app,
        loop="none",
        http=_HttpProtocol,
        ws="none",
        lifespan="auto",
        interface="asgi3",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        # The application trusts a proxy only if it is configured to.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        # Used for `asyncio.wait_for`, which takes a float, too.
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    server = _Uvicorn(config, task_status.started)

    async def watch() -> None:
        try:
            await stop.wait()
        finally:
            server.should_exit = True

    try:
        # If the socket stayed open here, the system would accept connections after the end of the server.
        with sock, _without_cancellations(logging.getLogger("uvicorn.error")):
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                # uvicorn leaves connections and tasks behind if it is cancelled.
                with anyio.CancelScope(shield=True):
                    await server.serve(sockets=[sock])
                group.cancel_scope.cancel()
    except Exception as error:
        reason = innermost(error)
        if isinstance(reason, ServiceError):
            raise reason from None
        raise ServiceError(f"the HTTP server failed: {type(reason).__name__}: {reason}") from error


def innermost(error: BaseException) -> BaseException:
    """Return the first error in nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class _Uvicorn(uvicorn.Server):
    """uvicorn without handlers for signals, which belong to the command."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    def capture_signals(self) -> Any:
        """Do nothing."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it."""
        try:
            await super().startup(sockets)
        except SystemExit:
            # uvicorn has logged the reason.
            raise ServiceError("the application did not start") from None
        self._on_started()


class _HttpProtocol(H11Protocol):
    """The protocol of uvicorn, with a limit of the time for the head of a request.

    uvicorn limits the time between requests only: a connection that sends nothing, or a part of a head, would stay.
    """

    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        """Start the time of the first request."""
        super().connection_made(transport)
        self._limit_head()

    def data_received(self, data: bytes) -> None:
        """Handle data, which may be a part of a head."""
        super().data_received(data)
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time."""
        super().connection_lost(exc)
        self._stop_timer()

    def _limit_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@contextmanager
def _without_cancellations(logger: logging.Logger) -> Generator[None]:
    """Keep the tracebacks of cancelled requests out of a log."""
    cancelled = anyio.get_cancelled_exc_class()

    def is_other(record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], cancelled)

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def notify_systemd(state: str) -> None:
    """Send a state, such as `READY=1`, to systemd if it has started the process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        # A name that begins with "@" is one without a file.
        sock.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        sock.sendall(state.encode())
