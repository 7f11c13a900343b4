"""Lists of passes that programs give, kept in the cache folder of the user."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

from apass.adapters.programs import Tool
from apass.util.files import write_whole
from apass.util.tagged_json import reachable_types, read_tagged, write_tagged

__all__ = ["kept_catalogue"]

CatalogueT = TypeVar("CatalogueT")


def kept_catalogue(
    kind: type[CatalogueT], tool: Tool, program: Path, format_: int, ask: Callable[[Path, str], CatalogueT]
) -> CatalogueT:
    """Return what a program lists.

    It is kept under the path, size and time of the program, and the arguments of each run.

    Parameters:
        kind: the dataclass of the catalogue.
        tool: what the program is one of.
        program: the program.
        format_: the version of the dataclass.
        ask: asks the program; it receives the version of LLVM with a digest of what distinguishes programs.

    Raises:
        AdapterError: if `ask` raises it.

    """
    status = program.stat()
    state = status.st_size, status.st_mtime_ns, *tool.extra_arguments()
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    file = folder / "apass" / f"{tool.name}-{_digest((format_, str(program.resolve()), *state))}.json"
    types = reachable_types([kind])
    # A damaged file is written anew.
    with suppress(OSError, ValueError):
        return cast("CatalogueT", read_tagged(file.read_text("utf-8"), types))
    version = re.search(r"version (\S+)", tool.output_of(program, ["--version"])[1])
    number = "of unknown version" if version is None else version[1]
    catalogue = ask(program, f"LLVM {number}, {_digest(state)}")
    # A cache folder that cannot be written costs time only.
    with suppress(OSError):
        write_whole(file, write_tagged(catalogue, types), durable=False)
    return catalogue


def _digest(values: tuple[object, ...]) -> str:
    return blake2b(repr(values).encode(), digest_size=16).hexdigest()
