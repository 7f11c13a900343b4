"""Passes for pipelines in text form."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import apass
from apass import ModulePass, Pass, PassContext, PassInfo
from apass.pipelines.parser import parse_pipeline

Module = dict[str, int]


class Mode(Enum):
    FAST = 1
    SMALL = 2


class Tune(ModulePass[Module]):
    """A pass with one option of each kind."""

    info = PassInfo(opt_level=1, name="Tune")

    def __init__(
        self,
        trials: int = 8,
        device: str | None = None,
        rate: float = 1.0,
        mode: Mode = Mode.FAST,
        names: Sequence[str] = (),
        shape: list[list[int]] | None = None,
        where: Path | None = None,
        layout: Literal["NCHW", "NHWC", 4] = "NCHW",
        dry: bool = False,
        anything: Any = None,
    ) -> None:
        self.given = (trials, device, rate, mode, names, shape, where, layout, dry, anything)

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {name: func + 1 for name, func in mod.items()}


@apass.module_pass(opt_level=0)
def FoldConstant(mod: Module, ctx: PassContext) -> Module:
    return mod


class Rescue(Pass[Module]):
    """A user-defined combinator whose option holds passes."""

    def __init__(self, passes: Sequence[Pass[Module]], rescue: Sequence[Pass[Module]] = ()) -> None:
        self.info = PassInfo(0, "Rescue")
        self.passes = list(passes)
        self.rescue = list(rescue)

    def children(self) -> Sequence[Pass[Module]]:
        return self.passes

    def transform(self, mod: Module, ctx: PassContext) -> Module:
        return mod


def Broken(depth: int = 1) -> Pass[Module]:
    raise ZeroDivisionError(f"depth {depth}")


def Nested(text: str = "FoldConstnat") -> Pass[Module]:
    return parse_pipeline(text)


def is_large(mod: Module) -> bool:
    return len(mod) > 1


async def size_of(mod: Module) -> int:
    return len(mod)


@contextmanager
def registered() -> Generator[None]:
    """Register the passes and functions, also by names that look like other tokens."""
    names = ("FoldConstant", "demo.Fold-1", "none", "3")
    for factory in (Tune, Broken, Nested, Rescue):
        apass.register_pass(factory.__name__, factory)
    for name in names:
        apass.register_pass(name, FoldConstant)
    for function in (is_large, size_of, len):
        apass.register_callable(function)
    yield
    for function in (is_large, size_of, len):
        apass.unregister_callable(function.__name__)
    for name in ("Tune", "Broken", "Nested", "Rescue", *names):
        apass.unregister_pass(name)
