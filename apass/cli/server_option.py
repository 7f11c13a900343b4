"""`--server` and `--token`: the server of a command, and its client."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import typer

from apass.cli.completion import complete_backend
from apass.service.errors import AccessError, OptimizerClosedError, ServerUnavailableError, ServiceError

__all__ = ["ServerOptions", "check_server", "client_of"]

"""The panel of `--help` that lists the options of the server."""

FIRST_SECONDS: Final = 2.0
"""Seconds for which the first request is repeated without any answer.

A server that was never there is reported soon. If a standby answers, or a proxy without a server, one is there soon.
"""

SERVER: Final = "APASS_SERVER"
"""Environment variable with the URL of the server."""

TOKEN: Final = "APASS_TOKEN"
"""Environment variable with the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of the server; a dataclass for `with_options`."""

    PANEL: ClassVar[str] = "Server"

    server: Annotated[
        str,
        typer.Option(
            "--server",
            metavar="URL",
            envvar=SERVER,
            show_envvar=False,
            help=f"Use this server; unix:PATH is a Unix socket. The variable {SERVER} may name it.",
        ),
    ] = "http://127.0.0.1:8000"
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            envvar=TOKEN,
            show_envvar=False,
            help=f"Send this token; the variable {TOKEN} keeps it out of lists of processes.",
        ),
    ] = None
    patience: Annotated[
        float,
        typer.Option(
            "--retry-for",
            metavar="SECONDS",
            min=0.1,
            help="Repeat requests for this time if the server cannot be reached or is busy.",
        ),
    ] = 60.0
    backend: Annotated[
        str, typer.Option("--backend", autocompletion=complete_backend, help="Set the event loop: asyncio or trio.")
    ] = "asyncio"


def client_of(options: ServerOptions, *, retry_seconds: float | None = None) -> Any:
    """Return a `Client` of the server.

    Parameters:
        options: the options.
        retry_seconds: seconds for which a request is repeated, in place of those of the options.

    Raises:
        InputError: if the URL or the token is not one.
        MissingExtraError: if httpx is not installed.

    """
    # Imported late, so that `--help` works without httpx.
    from apass.service.client import Client

    seconds = options.patience if retry_seconds is None else retry_seconds
    return Client(options.server, token=options.token, retry_seconds=seconds)


async def check_server(options: ServerOptions, *scopes: str) -> frozenset[str]:
    """Ask the server for its status, so that a wrong URL or token is reported at once.

    Return the scopes of the token.

    Parameters:
        options: the options.
        *scopes: the scopes that the command needs.

    Raises:
        ServerUnavailableError: if it cannot be reached.
        AccessError: if the token is not valid, or has not the scopes.

    """
    try:
        status = await _status(options, min(options.patience, FIRST_SECONDS))
    except ServiceError as error:
        if error.status != OptimizerClosedError.status or error.__cause__ is not None:
            raise
        status = await _status(options, options.patience)
    present = frozenset[str](status.get("scopes", ()))
    if "admin" not in present and not present.issuperset(scopes):
        raise AccessError(
            f"the token has the scopes {', '.join(sorted(present))}; this command needs {' and '.join(scopes)}; "
            f"set another token with --token or {TOKEN}"
        )
    return present


async def _status(options: ServerOptions, seconds: float) -> Mapping[str, Any]:
    async with client_of(options, retry_seconds=seconds) as client:
        try:
            status: Mapping[str, Any] = await client.status()
        except AccessError as error:
            if not error.needs_token:
                raise
            known = "does not accept the token" if options.token is not None else "needs a token"
            raise AccessError(f"the server {client.url} {known}; set a valid one with --token or {TOKEN}") from None
        except ServerUnavailableError as error:
            raise ServerUnavailableError(
                f"{error}; start it with `apass serve`, or name another with --server"
            ) from error.__cause__
    return status
