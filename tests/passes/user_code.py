# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Code as users write it, for mypy and pyright in strict mode.

Each line with an ignore comment is a mistake. Both type checkers report an ignore comment that is not needed.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import field
from typing import assert_type

import apass

Module = dict[str, int]


class Tune(apass.FunctionPass[Module, int], opt_level=1, timeout=30.0):
    """A pass with options, which are the fields of a dataclass."""

    size: int = 4
    mode: str = "fast"
    names: tuple[str, ...] = field(default=(), kw_only=True)

    async def transform_function(self, func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func + self.size


class Rename(apass.ModulePass[Module], opt_level=2, required=["Tune"], cacheable=True):
    """A pass with an option that has no default."""

    names: Mapping[str, str]

    def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
        return {self.names.get(name, name): func for name, func in mod.items()}


class Old(apass.ModulePass[Module]):
    """A pass with a constructor of its own."""

    info = apass.PassInfo(opt_level=1, name="Old")

    def __init__(self, by: int) -> None:
        self.by = by
        self.timeout = 3.0

    def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
        return {name: func * self.by for name, func in mod.items()}


class Older(Old, init=False):
    """A pass with the constructor of its base."""


tune = Tune(8, "slow", names=("f",))
assert_type(tune, Tune)
assert_type(tune.size, int)
assert_type(Tune().timeout, float | None)
assert_type(Rename({"f": "g"}).names, Mapping[str, str])
assert_type(Old(2).by, int)
assert_type(Older(3).by, int)


def mistakes() -> None:
    """Make mistakes, which the type checkers report."""
    Tune("8")  # type: ignore[arg-type]
    Tune(8, "slow", ("f",))  # type: ignore[call-arg]
    Tune(sise=8)  # type: ignore[call-arg]
    Rename()  # type: ignore[call-arg]

    class WrongLevel(apass.ModulePass[Module], opt_level="1"):  # type: ignore[arg-type]
        """Its level is no number."""

        def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
            return mod

    class WrongOption(apass.ModulePass[Module], opt_level=1, cachable=True):  # type: ignore[call-arg]
        """An option has another name."""

        def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
            return mod


@apass.function_pass(opt_level=1)
async def Add(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return func + 1


@apass.register_pass("user_code.Double")
@apass.module_pass(opt_level=1, required=["Sequential"])
def Double(mod: Module, ctx: apass.PassContext) -> Module:
    return {name: 2 * func for name, func in mod.items()}


@apass.register_pass
@apass.function_pass(opt_level=1, name="user_code.Shift")
class Shift:
    """A class of passes by a decorator, which is Any for pyright."""

    def __init__(self, by: int, *, back: bool = False) -> None:
        self.by = -by if back else by

    def transform_function(self, func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func << self.by


assert_type(Add, apass.FunctionPass[Module, int])
assert_type(Double, apass.ModulePass[Module])
assert_type(apass.run(apass.Sequential([tune, Add]), {"f": 1}), Module)


async def uses(mod: Module) -> None:
    """Await passes."""
    assert_type(await tune(mod), Module)
    assert_type(await Add(mod), Module)
    await tune("mod")  # type: ignore[arg-type]


def fallback(func: int, mod: Module, ctx: apass.PassContext, error: Exception) -> int:
    """Return the function as it was."""
    return func


@apass.function_pass(opt_level=1, on_error=fallback, preserves="all")
def Plain(func: int, mod: Module, ctx: apass.PassContext) -> int | Awaitable[int]:
    return func
