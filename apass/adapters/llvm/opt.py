"""The program `opt`: which one it is, and how it reads and prints modules."""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from apass.adapters.llvm.catalogue import Catalogue, catalogue_of
from apass.adapters.llvm.library import HAS_LLVMLITE
from apass.adapters.programs import OPT, Request, failure, run_now
from apass.errors import MissingExtraError, VerifyError

__all__ = ["LLVMLITE", "Engine", "Opt", "default_engine", "find_opt", "needed_opt", "printed_by_opt", "written_by_opt"]

Engine = Literal["opt", "llvmlite"]
"""What runs a pass: the program, or the library in this process."""

_BROKEN: Final = "input module is broken!"
"""What `opt` prints for a module that its verifier rejects."""

LLVMLITE: Final = "llvmlite"
"""The value of APASS_LLVM_OPT that chooses the library."""


@dataclass(frozen=True, slots=True)
class Opt:
    """A program `opt`."""

    path: Path
    """Where it is."""
    catalogue: Catalogue
    """What it lists."""


def default_engine() -> Engine:
    """Return what runs passes that do not name it: `opt` if there is one.

    Raises:
        MissingExtraError: if there is neither.

    """
    if find_opt() is not None:
        return "opt"
    if HAS_LLVMLITE:
        return "llvmlite"
    if os.environ.get(OPT.variable) == LLVMLITE:
        raise MissingExtraError(f"{OPT.variable} chooses llvmlite, which is not installed: pip install 'apass[llvm]'")
    needed_opt()
    return "opt"


def needed_opt() -> Opt:
    """Return the program.

    Raises:
        MissingExtraError: if there is none, APASS_LLVM_OPT names no program, or it is `llvmlite`.
        AdapterError: if the program lists no passes.

    """
    if os.environ.get(OPT.variable) == LLVMLITE:
        raise MissingExtraError(f"{OPT.variable} is {LLVMLITE!r}, so no pass runs in opt; unset it")
    program = OPT.find()
    return Opt(program, catalogue_of(program))


def find_opt() -> Opt | None:
    """Return the program; None if there is none, or APASS_LLVM_OPT is `llvmlite`.

    Raises:
        MissingExtraError: if APASS_LLVM_OPT names no program.
        AdapterError: if the program lists no passes.

    """
    named = os.environ.get(OPT.variable)
    return None if named == LLVMLITE else _found(named, os.environ.get("PATH"), os.environ.get(OPT.arguments))


@lru_cache(maxsize=8)
def _found(named: str | None, path: str | None, arguments: str | None) -> Opt | None:
    """Return the program for values of the environment variables."""
    try:
        program = OPT.find()
    except MissingExtraError:
        if named:
            raise
        return None
    return Opt(program, catalogue_of(program))


def printed_by_opt(program: Path, data: bytes, source: str = "", path: str = "-") -> str:
    """Return the text that `opt` prints for a module; see `Request.path`.

    Raises:
        AdapterError: if it cannot read the module.
        VerifyError: if the module is invalid.

    """
    return written_by_opt(program, data, source, path, "-S").decode("utf-8", "surrogateescape")


def written_by_opt(program: Path, data: bytes, source: str = "", path: str = "-", *arguments: str) -> bytes:
    """Return what `opt` writes for a module: by default bitcode.

    Raises:
        AdapterError: if it cannot read the module.
        VerifyError: if the module is invalid.

    """
    request = Request(program, (*arguments, "-passes="), data, tool=OPT, path=path)
    answer = run_now(request)
    if answer.status:
        error = failure(answer, request, source)
        raise VerifyError(f"not a valid LLVM module: {error}") if _BROKEN in answer.printed else error
    return answer.data
