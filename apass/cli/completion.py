"""Shell completion of the values of options: passes, model formats and others."""

import re
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["complete_backend", "complete_format", "complete_pass", "complete_pipeline", "completes"]

_LAST_NAME: Final = re.compile(r"(?P<head>(?:.*[,(])?\s*)(?P<name>[^,(){}=\s]*)", re.DOTALL)
"""The text of a pipeline up to its last name, and this name."""


def complete_pass(incomplete: str) -> Iterator[str]:
    """Iterate over the names of passes that start with `incomplete`.

    Passes of `--load` are missing, because completion must not run files of the user.
    """
    # Imported here: every command imports this module, and the providers of passes are slow to import.
    from apass.passes.registry import list_passes

    yield from (name for name in list_passes() if name.startswith(incomplete))


def complete_pipeline(incomplete: str) -> Iterator[str]:
    """Iterate over the texts of pipelines that complete the last name of `incomplete`.

    Nothing is completed in options and comments.
    """
    match = _LAST_NAME.fullmatch(incomplete)
    if match is None or "#" in incomplete or incomplete.count("{") > incomplete.count("}"):
        return
    yield from (match["head"] + name for name in complete_pass(match["name"]))


def complete_format(incomplete: str) -> Iterator[str]:
    """Iterate over the model formats that start with `incomplete`."""
    # Every command imports this module.
    from apass.batch.formats import suffixes

    names = (suffix.removeprefix(".") for suffix in suffixes())
    yield from (name for name in names if name.startswith(incomplete))


def completes(*values: str) -> Callable[[str], Iterator[str]]:
    """Return a completion of an option that has one of these values."""

    def complete(incomplete: str) -> Iterator[str]:
        yield from (value for value in values if value.startswith(incomplete))

    return complete


complete_backend: Final = completes("asyncio", "trio")
"""The completion of event loops."""
