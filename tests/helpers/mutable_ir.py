"""A mutable IR for the tests, whose adapter counts copies."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio.lowlevel

import apass
from apass.core.adapter import adapter_of_type

Contents = dict[str, list[str]]


class Program:
    """A module of functions, which are lists of instructions."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def __repr__(self) -> str:
        return f"Program({self.contents})"


class ProgramAdapter:
    """The adapter of `Program`, which counts copies and commits."""

    thread_safe = True

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def functions(self, mod: Program) -> Iterable[tuple[str, list[str]]]:
        return mod.contents.items()

    def get(self, mod: Program, name: str) -> list[str]:
        return mod.contents[name]

    def kind(self, func: list[str]) -> apass.plugins.FunctionKind:
        return "function"

    def replace(self, mod: Program, updates: Mapping[str, list[str]]) -> Program:
        return Program({**mod.contents, **updates})

    def skips(self, func: list[str]) -> bool:
        return False

    def fingerprint(self, x: Program | list[str]) -> str:
        self.counts["fingerprint"] += 1
        return repr(x)

    def equal(self, a: Any, b: Any) -> bool:
        return repr(a) == repr(b)

    def to_text(self, x: Program | list[str]) -> str:
        return repr(x)

    def verify(self, mod: Program) -> None:
        """Accept every module."""

    def dumps(self, mod: Program) -> bytes:
        return json.dumps(mod.contents).encode()

    def loads(self, data: bytes) -> Program:
        return Program(json.loads(data))

    def isolate(self, mod: Program, names: Iterable[str]) -> Program:
        self.counts["copy"] += 1
        return Program({name: list(mod.contents[name]) for name in names})

    def extract(self, sub: Program, names: Iterable[str]) -> Mapping[str, list[str]]:
        return {name: sub.contents[name] for name in names}

    def commit(self, sub: Program) -> Program:
        self.counts["commit"] += 1
        return Program(sub.contents)


class ImmutableProgram(Program):
    """A module whose adapter has no `commit`."""


class PlainAdapter(ProgramAdapter):
    """An adapter without the optional method `commit`."""

    commit: Any = None

    def isolate(self, mod: Program, names: Iterable[str]) -> Program:
        return ImmutableProgram(super().isolate(mod, names).contents)


def copies() -> Counter[str]:
    """Return the counts of the adapter of `Program`, after setting them to 0."""
    adapter = adapter_of_type(Program)
    if adapter is None:
        adapter = ProgramAdapter()
        apass.register_adapter(Program, adapter)
        apass.register_adapter(ImmutableProgram, PlainAdapter())
    assert isinstance(adapter, ProgramAdapter)
    adapter.counts.clear()
    return adapter.counts


class Append(apass.InPlacePass[Program]):
    """Appends an instruction to each function, in place."""

    def __init__(self, word: str, *, suspends: bool = False, level: int = 0) -> None:
        self.info = apass.PassInfo(level, f"Append {word}")
        self.word = word
        self.suspends = suspends

    def transform_in_place(self, mod: Program, ctx: apass.PassContext) -> Any:
        def append() -> bool:
            for body in mod.contents.values():
                body.append(self.word)
            return bool(mod.contents)

        async def append_later() -> bool:
            await anyio.lowlevel.checkpoint()
            return append()

        return append_later() if self.suspends else append()


class Calls(apass.InPlacePass[Program]):
    """Calls a function with the private module, and returns its result."""

    def __init__(self, function: Callable[[Program], Any], name: str = "Calls") -> None:
        self.info = apass.PassInfo(0, name)
        self.function = function

    def transform_in_place(self, mod: Program, ctx: apass.PassContext) -> Any:
        return self.function(mod)
