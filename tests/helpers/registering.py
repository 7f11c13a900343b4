"""Passes to register, and a fixture that restores the registry."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import pytest

import apass
from apass import (
    ModulePass,
    PassContext,
    PassInfo,
    list_passes,
    unregister_pass,
)
from apass.core.pass_factories import load_providers

Module = dict[str, int]


class Mode(Enum):
    FAST = 1
    SMALL = 2


class Shift(ModulePass[Module]):
    """A pass with options that are attributes."""

    info = PassInfo(opt_level=1, name="Shift")

    def __init__(self, by: int, mode: Mode = Mode.FAST, names: Sequence[str] = (), factor: float = 1.0) -> None:
        self.by = by
        self.mode = mode
        self.names = names
        self.factor = factor

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {name: func + self.by for name, func in mod.items()}


@apass.module_pass(opt_level=0)
async def Double(mod: Module, ctx: PassContext) -> Module:
    return {name: 2 * func for name, func in mod.items()}


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """Unregister the passes that a test registers."""
    load_providers()
    before = set(list_passes())
    yield
    for name in set(list_passes()) - before:
        unregister_pass(name)


def message_of(error: type[Exception], call: Callable[[], object]) -> str:
    """Return the message of the error that `call` raises."""
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)
