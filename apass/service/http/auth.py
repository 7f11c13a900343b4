"""`Tokens`: the bearer tokens of a server, of which it knows the hashes only."""

import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from string import hexdigits
from typing import Any, Final, Protocol, Self

from apass.errors import InputError

__all__ = ["LOCAL", "Authenticator", "Identity", "Token", "TokenScope", "Tokens", "new_token"]

PREFIX: Final = "apass_"
"""New secrets begin with this, so that tools which look for leaked secrets find them."""

SHORTEST: Final = 32
"""Characters of the shortest secret. A hash without a salt is safe for secrets that cannot be guessed only."""


class TokenScope(StrEnum):
    """What a token permits."""

    SUBMIT = "submit"
    """To submit, cancel, retry and remove jobs of the tenant."""
    READ = "read"
    """To read the jobs of the tenant, their events, results and reports, and what the server offers."""
    METRICS = "metrics"
    """To read the metrics of the server, which count the jobs of all tenants."""
    ADMIN = "admin"
    """All of these, for the jobs of all tenants, and to read the state of the server."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The tenant that a request comes from, and what it may do."""

    tenant: str
    """The owner of new jobs."""
    scopes: frozenset[TokenScope]
    """What the request may do."""

    @property
    def visible_tenant(self) -> str | None:
        """The tenant whose jobs are visible; None for all."""
        return None if TokenScope.ADMIN in self.scopes else self.tenant

    def permits(self, scope: TokenScope) -> bool:
        """Return whether the request may do something."""
        return scope in self.scopes or TokenScope.ADMIN in self.scopes


LOCAL: Final = Identity("", frozenset(TokenScope))
"""The identity of every request to a server without authentication."""


class Authenticator(Protocol):
    """Identifies the sender of a request."""

    # It is a Protocol because an application has users of its own.

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return the identity of a request; None if it has no valid credentials.

        Parameters:
            headers: the headers of the request, with names in lower case.

        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its secret.

    Raises:
        ValueError: if a value is invalid.

    """

    digest: str
    """The SHA-256 of the secret in hexadecimal digits."""
    tenant: str
    """The owner of the jobs."""
    scopes: frozenset[TokenScope] = frozenset({TokenScope.SUBMIT, TokenScope.READ})
    """What it permits."""

    def __post_init__(self) -> None:
        """Check the values, which may come from a file."""
        if not isinstance(self.digest, str) or len(self.digest) != 64 or set(self.digest) - set(hexdigits):
            raise ValueError(f"the digest of a token must be a SHA-256 in hexadecimal digits, got {self.digest!r}")
        if not isinstance(self.tenant, str) or not 0 < len(self.tenant) <= 300 or not self.tenant.isprintable():
            raise ValueError(f"the tenant of a token must be a name of at most 300 characters, got {self.tenant!r}")
        if isinstance(self.scopes, str) or not self.scopes:
            raise ValueError(f"the scopes of a token must be a list such as ['submit', 'read'], got {self.scopes!r}")
        object.__setattr__(self, "digest", self.digest.lower())
        object.__setattr__(self, "scopes", frozenset(map(TokenScope, self.scopes)))

    @classmethod
    def of(cls, secret: str, tenant: str, scopes: Collection[str] = ("submit", "read")) -> Self:
        """Return the token with a secret.

        Raises:
            ValueError: if the secret is short, or a value is invalid.

        """
        if len(secret) < SHORTEST:
            raise ValueError(f"a secret must have at least {SHORTEST} characters, got {len(secret)}; use new_token()")
        return cls(digest=_digest(secret), tenant=tenant, scopes=frozenset(map(TokenScope, scopes)))

    def as_json(self) -> dict[str, Any]:
        """Return the token as values of JSON, for `Tokens.read`."""
        return {"sha256": self.digest, "tenant": self.tenant, "scopes": sorted(self.scopes)}


def new_token(tenant: str, scopes: Collection[str] = ("submit", "read")) -> tuple[str, Token]:
    """Return a new secret, and the token with its hash."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Token.of(secret, tenant, scopes)


class Tokens:
    """Identifies requests by bearer tokens.

    Parameters:
        tokens: the tokens.

    >>> secret, token = new_token("alice", ["read"])
    >>> Tokens([token]).find(secret).tenant
    'alice'
    >>> Tokens([token]).find("another secret") is None
    True

    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens: Final = tuple((token.digest, Identity(token.tenant, token.scopes)) for token in tokens)

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._tokens)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the tokens of a file, which has one of `Token.as_json` in each line.

        Raises:
            InputError: if the file cannot be read, or a line is invalid.

        """
        tokens: list[Token] = []
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read the tokens in {path}: {reason}") from error
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                values = json.loads(line)
                tokens.append(
                    Token(digest=values["sha256"], tenant=values["tenant"], scopes=frozenset(values["scopes"]))
                )
            except (KeyError, TypeError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
                raise InputError(f"{path}, line {number}: {reason}; expected sha256, tenant and scopes") from error
        return cls(tokens)

    def find(self, secret: str) -> Identity | None:
        """Return the identity of a secret; None if it is unknown."""
        digest, result = _digest(secret), None
        # All are compared, in constant time each, so that the duration does not depend on the secret.
        for known, identity in self._tokens:
            if compare_digest(known, digest):
                result = identity
        return result

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return the identity of the header `Authorization`; see `Authenticator`."""
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        return self.find(secret.strip()) if scheme.lower() == "bearer" else None


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
