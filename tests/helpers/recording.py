"""A suspending recorder, recording passes, and passes made of any callable."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from anyio.lowlevel import checkpoint

import apass
from apass.testing import RecordingInstrument

__all__ = [
    "FunctionBody",
    "ModuleBody",
    "SuspendingRecorder",
    "function_pass_of",
    "logging_pass",
    "module_pass_of",
]

Module = dict[str, Any]

FunctionBody = Callable[[Any, Any, Any], Any]
"""Body of a function pass, without a precise type."""
ModuleBody = Callable[[Any, Any], Any]
"""Body of a module pass, without a precise type."""


def function_pass_of(body: FunctionBody, opt_level: int = 0, name: str = "P", **options: Any) -> apass.Pass[Any]:
    """Return a function pass made of any callable."""
    declare: Callable[..., apass.Pass[Any]] = cast("Any", apass.function_pass)
    return declare(body, opt_level, name, **options)


def module_pass_of(body: ModuleBody, opt_level: int = 0, name: str = "P", **options: Any) -> apass.Pass[Any]:
    """Return a module pass made of any callable."""
    declare: Callable[..., apass.Pass[Any]] = cast("Any", apass.module_pass)
    return declare(body, opt_level, name, **options)


class SuspendingRecorder(RecordingInstrument):
    """A recorder whose hooks suspend before and after they log."""

    def record(self, text: str, answer: bool | None = None) -> Any:
        return self._suspend_around(lambda: RecordingInstrument.record(self, text, answer))

    async def _suspend_around(self, record: Callable[[], Any]) -> Any:
        await checkpoint()
        answer = record()
        await checkpoint()
        return answer


def logging_pass(
    log: list[str],
    name: str,
    opt_level: int = 0,
    required: Sequence[str] = (),
    body: Callable[[Module], Awaitable[Module]] | None = None,
) -> apass.ModulePass[Module]:
    """Return a module pass that logs `run NAME` and runs `body`, if any."""

    async def run(mod: Module, ctx: apass.PassContext) -> Module:
        log.append(f"run {name}")
        return mod if body is None else await body(mod)

    return apass.module_pass(run, opt_level, name, required)
