"""Passes of dicts for tests of `Repeat`, `If` and `Race`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import apass
from apass import ModulePass, Pass, PassContext
from apass.adapters.mapping import DictAdapter

Module = dict[str, Any]


def stepping(table: Sequence[int], name: str = "Step") -> ModulePass[Module]:
    """Return a pass that maps the number of a module by a table.

    It returns the same module if the number does not change.
    """

    async def step(mod: Module, ctx: PassContext) -> Module:
        old: int = mod["f"]
        return mod if table[old] == old else {"f": table[old]}

    return apass.module_pass(step, opt_level=0, name=name)


def setting(value: object, name: str = "Set", opt_level: int = 0) -> ModulePass[Module]:
    """Return a pass that returns a new module with `value` as function `f`."""
    return apass.module_pass(lambda mod, ctx: {**mod, "f": value}, opt_level=opt_level, name=name)


def waiting(name: str, body: Callable[[Module], Awaitable[Module]], opt_level: int = 0) -> ModulePass[Module]:
    """Return a pass that awaits `body`."""

    async def run(mod: Module, ctx: PassContext) -> Module:
        return await body(mod)

    return apass.module_pass(run, opt_level=opt_level, name=name)


async def error_of(pass_: Pass[Module], mod: Module, error: type[BaseException] = Exception) -> Any:
    """Return the error that the pass raises."""
    with pytest.raises(error) as caught:
        await pass_(mod)
    return caught.value


class Box(dict[str, Any]):
    """A module that supports weak references."""


class ContentsAlone(DictAdapter):
    """Adapter whose fingerprints ignore types."""

    def fingerprint(self, x: Any) -> str:
        return repr(sorted(x.items()))


CONTENTS_ALONE: Any = ContentsAlone()
apass.register_adapter(Box, CONTENTS_ALONE)


def failing(name: str, error: BaseException) -> ModulePass[Module]:
    """Return a pass that raises `error`."""

    def fail(mod: Module, ctx: PassContext) -> Module:
        raise error

    return apass.module_pass(fail, opt_level=0, name=name)
