"""Recording instruments, recording passes, and passes made of any callable."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, cast

from anyio.lowlevel import checkpoint

import apass

__all__ = [
    "FunctionBody",
    "ModuleBody",
    "Recorder",
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


@apass.pass_instrument
class Recorder:
    """Instrument that logs every hook of passes and contexts.

    A log entry is `A.run_before_pass P`. The hooks in `fails`, named as in the log without the name of the instrument,
    raise ValueError.
    """

    def __init__(self, name: str, log: list[str], fails: Collection[str] = (), skips: Collection[str] = ()) -> None:
        self.name = name
        self.log = log
        self.fails = fails
        self.skips = skips

    def event(self, text: str, answer: bool | None = None) -> Any:
        self.log.append(f"{self.name}.{text}")
        if text in self.fails:
            raise ValueError(f"{self.name}.{text}")
        return answer

    def enter_pass_ctx(self) -> Any:
        return self.event("enter_pass_ctx")

    def exit_pass_ctx(self) -> Any:
        return self.event("exit_pass_ctx")

    def should_run(self, mod: Module, info: apass.PassInfo) -> Any:
        return self.event(f"should_run {info.name}", info.name not in self.skips)

    def run_before_pass(self, mod: Module, info: apass.PassInfo) -> Any:
        return self.event(f"run_before_pass {info.name}")

    def run_after_pass(self, mod: Module, info: apass.PassInfo) -> Any:
        return self.event(f"run_after_pass {info.name}")

    def run_after_pass_failed(self, mod: Module, info: apass.PassInfo, error: BaseException) -> Any:
        return self.event(f"run_after_pass_failed {info.name}")


class SuspendingRecorder(Recorder):
    """A recorder whose hooks suspend before and after they log."""

    def event(self, text: str, answer: bool | None = None) -> Any:
        return self._suspend_around(lambda: Recorder.event(self, text, answer))

    async def _suspend_around(self, event: Callable[[], Any]) -> Any:
        await checkpoint()
        answer = event()
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
