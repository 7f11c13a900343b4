"""The command line: `apass opt` optimizes models, `apass passes` lists the passes."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.cli.app import main
else:
    # `apass.__main__` handles errors of the import of `main`, and needs this package for that.
    __getattr__, __dir__ = lazy_names(__name__, {"apass.cli.app": ["main"]})

__all__ = ["main"]
