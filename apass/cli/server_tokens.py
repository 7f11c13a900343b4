"""`--token-file` and `--new-token`: the tokens of a server."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from apass.cli.terminal import echo, print_error
from apass.errors import InputError, did_you_mean
from apass.util.files import write_whole

__all__ = ["TokenOptions", "add_token", "tokens_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """The options of authentication."""

    PANEL: ClassVar[str] = "Tokens"

    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Accept requests with the tokens in this file only."),
    ] = None
    new_token: Annotated[
        str | None, typer.Option("--new-token", metavar="TENANT", help="Add a token to the file, print it, and exit.")
    ] = None
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope",
            metavar="SCOPES",
            help=r"Let the new token permit these: submit, read, metrics, admin \[submit,read].",
        ),
    ] = None


def tokens_of(options: TokenOptions) -> Any:
    """Return the tokens of the file; None if there is no file.

    Raises:
        InputError: if the file cannot be read, or has no token.

    """
    if options.scope is not None:
        raise InputError("--scope is for a new token; add --new-token TENANT")
    if options.token_file is None:
        return None
    if not options.token_file.exists():
        raise InputError(
            f"--token-file {options.token_file} does not exist; "
            f"create it with --new-token TENANT --token-file {options.token_file}"
        )
    # Starlette is not needed for `--help`.
    from apass.service.http.auth import Tokens

    tokens: Any = Tokens.read(options.token_file)
    if not len(tokens):
        raise InputError(f"--token-file {options.token_file} has no token; add one with --new-token TENANT")
    return tokens


def add_token(options: TokenOptions, tenant: str) -> None:
    """Add a token to the file, and print it.

    Raises:
        InputError: if the options are incomplete, or the file cannot be used.

    """
    path = options.token_file
    if path is None:
        raise InputError("--new-token needs a file for the hash of the token; add --token-file FILE")
    # Starlette is not needed for `--help`.
    from apass.service.http.auth import Tokens, TokenScope, new_token

    scopes = [word.strip() for word in (options.scope or "submit,read").split(",") if word.strip()]
    known = [str(scope) for scope in TokenScope]
    for scope in scopes:
        if scope not in known:
            raise InputError(f"--scope: unknown scope {scope!r}{did_you_mean(scope, known, listing='scopes are ')}")
    try:
        secret, token = new_token(tenant, scopes)
    except ValueError as error:
        raise InputError(str(error)) from None
    text = ""
    if path.exists():
        Tokens.read(path)
        text = path.read_text("utf-8")
        text += "" if not text or text.endswith("\n") else "\n"
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The hashes are no secrets, but which tenants there are is no business of others.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    write_whole(path, f"{text}{json.dumps(token.as_json())}\n")
    echo(secret)
    permits = ", ".join(sorted(str(scope) for scope in token.scopes))
    print_error(f"this token of {tenant!r} permits {permits}; it is shown only once, and {path} has its hash")
