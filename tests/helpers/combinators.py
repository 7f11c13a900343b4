"""Passes of dicts for tests of `Repeat`, `If` and `Race`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import apass
from apass import ModulePass, Pass, PassContext
from apass.adapters.mapping import DictAdapter

Module = dict[str, Any]

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
"""For tests of Hypothesis, which start an event loop for each example."""


def stepping(table: Sequence[int], name: str = "Step") -> ModulePass[Module]:
    """Return a pass that takes the number of the module from a table; the module itself if that changes nothing."""

    async def step(mod: Module, ctx: PassContext) -> Module:
        old: int = mod["f"]
        return mod if table[old] == old else {"f": table[old]}

    return apass.module_pass(step, opt_level=0, name=name)


def setting(value: object, name: str = "Set", opt_level: int = 0) -> ModulePass[Module]:
    """Return a pass that puts one value into the module, always in a new one."""
    return apass.module_pass(lambda mod, ctx: {**mod, "f": value}, opt_level=opt_level, name=name)


def waiting(name: str, body: Callable[[Module], Awaitable[Module]], opt_level: int = 0) -> ModulePass[Module]:
    """Return a pass that awaits `body`."""

    async def run(mod: Module, ctx: PassContext) -> Module:
        return await body(mod)

    return apass.module_pass(run, opt_level=opt_level, name=name)


async def error_of(pass_: Pass[Module], mod: Module, error: type[BaseException] = Exception) -> Any:
    """Return what the pass raises."""
    with pytest.raises(error) as caught:
        await pass_(mod)
    return caught.value


class Box(dict[str, Any]):
    """A module that a weak reference can watch."""


class ContentsAlone(DictAdapter):
    """Knows nothing of types."""

    def fingerprint(self, x: Any) -> str:
        return repr(sorted(x.items()))


CONTENTS_ALONE: Any = ContentsAlone()
apass.register_adapter(Box, CONTENTS_ALONE)


def failing(name: str, error: BaseException) -> ModulePass[Module]:
    """Return a pass that raises `error`."""

    def fail(mod: Module, ctx: PassContext) -> Module:
        raise error

    return apass.module_pass(fail, opt_level=0, name=name)
