"""Runs of passes in `opt`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from apass.adapters.llvm.catalogue import MARK, Level
from apass.adapters.llvm.module import Module
from apass.adapters.llvm.opt import Opt
from apass.adapters.program_pool import ask, prints_ir, report
from apass.adapters.programs import OPT, Answer, Request
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError

__all__ = ["Element", "check_module", "run_elements"]

EMBEDDING: Final = ("embed-bitcode", "fatlto")
"""Passes that write bitcode into the module, which the option for the order of uses would change."""

SKIP: Final = "SkipOptimization"
"""The attribute of functions that passes over functions leave alone."""


@dataclass(frozen=True, slots=True)
class Element:
    """A part of the pipeline of `opt` on the level of modules."""

    text: str
    """The pass with its parameters, such as `simplifycfg<bonus-inst-threshold=2>`."""
    managers: tuple[str, ...] = ()
    """The managers around it, the outermost first."""
    levels: tuple[Level, ...] = ("module",)
    """What it can run on."""

    def __str__(self) -> str:
        """Return the text in its managers."""
        return "".join(f"{manager}(" for manager in self.managers) + self.text + ")" * len(self.managers)

    @property
    def is_on_functions(self) -> bool:
        """Whether it runs on one function after the other."""
        return str(self).startswith("function")


def check_module(info: PassInfo, mod: object) -> None:
    """Raise AdapterError unless `mod` is an LLVM module."""
    if isinstance(mod, Module):
        return
    kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
    hint = "; use apass.adapters.llvm.Module.from_llvm(mod)" if kind.startswith("llvmlite.") else ""
    raise AdapterError(f"pass {info.name!r} needs an apass.adapters.llvm.Module, got {kind}{hint}")


async def run_elements(
    opt: Opt, elements: Sequence[Element], mod: Module, ctx: PassContext, time_limit: float, label: str
) -> Module:
    """Return the module after the elements, or `mod` if nothing changed.

    They run in one process, unless functions are skipped.

    Raises:
        AdapterError: if a pass fails.
        HelperError: if `opt` crashes, or exceeds the time limit.

    """
    run = _Run(opt, ctx, time_limit, label)
    if SKIP not in mod.countable_text:
        return await run.on(mod, elements)
    for is_on_functions, group in groupby(elements, key=lambda element: element.is_on_functions):
        before, mod = mod, await run.on(mod, list(group))
        if is_on_functions and mod is not before:
            mod = mod.with_functions({name: func for name, func in before.functions.items() if func.is_marked})
    return mod


@dataclass(frozen=True, slots=True)
class _Run:
    """One execution of a pass of `opt`."""

    opt: Opt
    ctx: PassContext
    time_limit: float
    label: str

    async def on(self, mod: Module, elements: Sequence[Element]) -> Module:
        """Return the module after the elements, or `mod` if nothing changed."""
        pipeline = ",".join(map(str, elements))
        is_embedding = any(name in pipeline for name in EMBEDDING)
        if self.opt.catalogue.writes_text and not (is_embedding or prints_ir()):
            # The bitcode is for the next pass, and the text for whatever looks in between, or for a file.
            answer = await self._ask(mod, f"-passes={pipeline},{MARK}" if pipeline else f"-passes={MARK}", marked=True)
            result = Module.of_opt(answer.text, answer.data, mod.source)
        else:
            answer = await self._ask(mod, "-S", f"-passes={pipeline}")
            result = Module.of_opt(answer.data.decode("utf-8", "surrogateescape"), source=mod.source)
        if answer.printed:
            report(answer.printed, self.ctx, self.label, "LLVM")
        if not await self._is_same(mod, result):
            return result
        if not mod.is_printed:
            # What writes the module need not ask for the text again.
            mod.keep_printed(result.text)
        return mod

    async def _ask(self, mod: Module, *arguments: str, marked: bool = False) -> Answer:
        after = MARK if marked else ""
        if mod.is_on_disk():
            # The name of the file is that of the module, which a few passes use.
            request = Request(self.opt.path, arguments, mod.data, self.time_limit, after, OPT, mod.source)
            answer = await ask(request, self.ctx, mod.source)
            if mod.is_on_disk():
                return answer
        request = Request(self.opt.path, arguments, mod.data, self.time_limit, after, OPT)
        return await ask(request, self.ctx, mod.source)

    async def _is_same(self, mod: Module, result: Module) -> bool:
        """Return whether a module is the same before and after.

        LLVM prints a text that it has not printed yet, unless another number of instructions shows the difference.
        """
        if not mod.is_printed:
            if mod.instructions != result.instructions:
                return False
            answer = await self._ask(mod, "-S", "-passes=")
            mod = Module.of_opt(answer.data.decode("utf-8", "surrogateescape"))
        return mod.comparable == result.comparable
