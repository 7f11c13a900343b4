"""Passes that the tests of searches name in texts."""

from collections.abc import Generator
from typing import Any, Literal

import anyio
import pytest

import apass
from apass import PassContext, module_pass
from apass.passes.base import Pass
from apass.passes.registry import register_pass, unregister_pass

Module = dict[str, Any]


def add(n: int = 1) -> Pass[Module]:
    return module_pass(lambda mod, ctx: {**mod, "f": mod["f"] + n}, opt_level=0, name="Add")


def scale(by: float = 2.0, mode: Literal["up", "down"] = "up", exact: bool = True) -> Pass[Module]:
    factor = by if mode == "up" else 1 / by
    return module_pass(lambda mod, ctx: {**mod, "f": mod["f"] * factor}, opt_level=0, name="Scale")


def fail(how: Literal["error", "hang", "invalid"] = "error") -> Pass[Module]:
    async def transform(mod: Module, ctx: PassContext) -> Module:
        if how == "hang":
            await anyio.sleep_forever()
        if how == "invalid":
            raise apass.errors.VerifyError("a rule is broken")
        raise RuntimeError("it failed")

    return module_pass(transform, opt_level=0, name="Fail")


@pytest.fixture(autouse=True, scope="package")
def _passes() -> Generator[None]:
    register_pass("s.Add", add)
    register_pass("s.Scale", scale)
    register_pass("s.Fail", fail)
    yield
    for name in ("s.Add", "s.Scale", "s.Fail"):
        unregister_pass(name)
