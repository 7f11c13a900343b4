"""What many tests need: instruments and passes that write down what happens to them, and passes of any callable."""

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
"""What a function pass calls, where a type checker shall not look closer."""
ModuleBody = Callable[[Any, Any], Any]
"""What a module pass calls, likewise."""


def function_pass_of(body: FunctionBody, opt_level: int = 0, name: str = "P", **guards: Any) -> apass.Pass[Any]:
    """Return `function_pass` of a lambda or of any other callable."""
    declare: Callable[..., apass.Pass[Any]] = cast("Any", apass.function_pass)
    return declare(body, opt_level, name, **guards)


def module_pass_of(body: ModuleBody, opt_level: int = 0, name: str = "P") -> apass.Pass[Any]:
    """Return `module_pass` of a lambda or of any other callable."""
    declare: Callable[..., apass.Pass[Any]] = cast("Any", apass.module_pass)
    return declare(body, opt_level, name)


@apass.pass_instrument
class Recorder:
    """Defines every hook of a pass and of a context, and writes `A.run_before_pass P` when one is called.

    It raises ValueError in the hooks named in `fails`, as in the log but for the name of the instrument.
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
    """The same with hooks that suspend before and after they write."""

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
    """Return a module pass that writes `run NAME`, runs `body` if there is one, and changes nothing of its own."""

    async def run(mod: Module, ctx: apass.PassContext) -> Module:
        log.append(f"run {name}")
        return mod if body is None else await body(mod)

    return apass.module_pass(run, opt_level, name, required)
