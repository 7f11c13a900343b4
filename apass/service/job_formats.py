"""`JobFormats`: the formats of models and results of an optimizer."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio.to_thread import run_sync

from apass.batch.formats import added_conversions, check_format, check_installed, installed_suffixes, suffixes
from apass.errors import ApassError, MissingExtraError
from apass.passes.base import Pass
from apass.service.errors import InvalidJobError

__all__ = ["JobFormats"]

KEPT: Final = 1_000
"""How many combinations of a pipeline and formats are known to be possible."""


class JobFormats:
    """Checks formats before a job is accepted, so that it does not fail in its worker.

    Parameters:
        is_local: whether the workers have the libraries of this process. Those of other machines may have others.
        allow: patterns of the passes that jobs may name, and of the conversions that `to` may add.

    """

    def __init__(self, *, is_local: bool, allow: Collection[str] = ()) -> None:
        self._is_local = is_local
        self._allow = allow
        self._known: set[tuple[str, str, str]] = set()
        self._suffixes: tuple[str, ...] | None = None

    async def check(self, text: str, pipeline: Pass[Any] | None, kind: str, result_kind: str) -> None:
        """Check that a pipeline can read models of a kind, and write results of another.

        Parameters:
            text: the text of the pipeline.
            pipeline: the pipeline; None for the default one of the model's IR.
            kind: the suffix of the model.
            result_kind: the suffix of the result.

        Raises:
            InvalidJobError: if it cannot, a library is not installed, or a conversion is not allowed.

        """
        if (text, kind, result_kind) in self._known:
            return
        check = check_installed if self._is_local else check_format
        try:
            # A plug-in may be imported, which takes long.
            await run_sync(partial(check, Path(f"model{kind}"), result_kind, pipeline))
        except MissingExtraError as error:
            files = kind if kind == result_kind else f"{kind} and {result_kind}"
            raise InvalidJobError(f"the service has no library for {files} files: {error}") from error
        except ApassError as error:
            raise InvalidJobError(str(error)) from error
        for name in added_conversions(Path(f"model{kind}"), result_kind, pipeline):
            if not any(fnmatchcase(name, pattern.partition("{")[0]) for pattern in self._allow):
                raise InvalidJobError(f"{result_kind} results need the pass {name!r}, which is not allowed here")
        if len(self._known) == KEPT:
            self._known.clear()
        self._known.add((text, kind, result_kind))

    async def suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of the models that jobs may have."""
        if not self._is_local:
            return suffixes()
        if self._suffixes is None:
            self._suffixes = await run_sync(installed_suffixes)
        return self._suffixes
