"""The passes of `opt`, run in processes."""

import copy
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, Self

from apass.adapters.llvm.catalogue import EMPTY, LEVELS
from apass.adapters.llvm.module import Module
from apass.adapters.llvm.opt import Opt
from apass.adapters.llvm.passes.opt_runs import Element, check_module, run_elements
from apass.adapters.program_pool import run_version
from apass.adapters.programs import OPT, TIME_LIMIT
from apass.core.context import PassContext, has_hooks
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError, PassDefinitionError
from apass.passes.base import ModulePass, Pass
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline

__all__ = ["MAX_LEVEL", "OptManager", "OptPass", "OptPipeline"]

MAX_LEVEL: Final = 3
"""The highest level of LLVM."""


class OptPass(ModulePass[Module]):
    """A pass of `opt`, run in a process.

    - The input module is not changed. If the pass changes nothing, the result is the input module itself.
    - Consecutive passes of a Sequential run in one process if no instrument or store is in force. Otherwise bitcode
      with the order of uses is handed over, so that the result is the same.
    - A cancellation, such as the end of a deadline, kills the process.
    - An error that the pass reports raises AdapterError. A crash, and the end of the time limit, raise HelperError.
    - A pass over functions leaves functions with the attribute `"SkipOptimization"` as they are.

    Parameters:
        opt: the program.
        element: the pass in the pipeline of `opt`.
        info: level and name of the pass.
        time_limit: seconds that the process may take.

    """

    cacheable: bool | Literal["module"] = True
    merges: bool = True
    in_program: bool = True

    def __init__(self, opt: Opt, element: Element, info: PassInfo, time_limit: float = TIME_LIMIT) -> None:
        self.info = info
        self.version = run_version(opt.catalogue.version)
        self.opt = opt
        """The program."""
        self.element = element
        """The pass in the pipeline of `opt`."""
        self.time_limit = time_limit
        """Seconds that the process may take."""

    def native_text(self) -> str:
        """Return the text within its managers, without disabled passes."""
        return self.element.text

    def elements(self) -> tuple[Element, ...]:
        """Return what the process runs."""
        return (replace(self.element, text=self.native_text()),)

    def within(self, managers: tuple[str, ...]) -> Self:
        """Return the pass in other managers."""
        pass_ = copy.copy(self)
        pass_.element = replace(self.element, managers=managers)
        return pass_

    def merged_with(self, following: Sequence[Pass[Module]]) -> "OptPass | None":
        """Return a pass that runs all in one process.

        None if a pass has an executor or another program.
        """
        passes: list[OptPass] = [self]
        for pass_ in following:
            if not isinstance(pass_, OptPass):
                return None
            passes.append(pass_)
        if any(pass_.executor is not None or pass_.opt != self.opt for pass_ in passes):
            return None
        return _Merged(passes)

    def transform_module(self, mod: Module, ctx: PassContext) -> Awaitable[Module]:
        """Run `opt` on `mod`.

        Raises:
            AdapterError: if `mod` is not an LLVM module, or the pass fails.
            HelperError: if `opt` crashes, or exceeds the time limit.

        """
        check_module(self.info, mod)
        return run_elements(self.opt, self.elements(), mod, ctx, self.time_limit, self.info.name)


class _Merged(OptPass):
    """Consecutive passes in one process."""

    def __init__(self, passes: Sequence[OptPass]) -> None:
        name = ", ".join(pass_.info.name for pass_ in passes)
        super().__init__(passes[0].opt, Element(name), PassInfo(0, name), sum(pass_.time_limit for pass_ in passes))
        self._passes = passes

    def elements(self) -> tuple[Element, ...]:
        """Return the elements of all passes."""
        return tuple(element for pass_ in self._passes for element in pass_.elements())


class OptManager(OptPass):
    """A manager of `opt` with the passes that it runs, such as `function(sroa,gvn)`.

    If something looks in between, the passes of a manager run `in_order`, one after the other, each in a manager of
    its own. This is the case for `function` and `module`. The others interleave their passes on parts of the
    module, so they run as a whole.

    Parameters:
        opt, element, info, time_limit: those of `OptPass`; the element has no parentheses.
        passes: the passes.
        in_order: whether the passes may run one after the other on the module.

    """

    def __init__(
        self,
        opt: Opt,
        element: Element,
        info: PassInfo,
        passes: Sequence[Pass[Module]],
        time_limit: float = TIME_LIMIT,
        *,
        in_order: bool = False,
    ) -> None:
        super().__init__(opt, element, info, time_limit)
        inner = [pass_ for pass_ in passes if isinstance(pass_, OptPass) and pass_.opt == opt]
        if len(inner) != len(passes):
            other = next(pass_ for pass_ in passes if pass_ not in inner)
            raise PassDefinitionError(
                f"{info.name} takes passes of {opt.path.name} only, got {other}; write it outside of {info.name}"
            )
        for pass_ in inner:
            if max(map(LEVELS.index, pass_.element.levels)) < LEVELS.index(element.levels[0]):
                what = pass_.element.levels[0]
                raise PassDefinitionError(f"{pass_} runs on a {what}, so it cannot be within {info.name}")
        self.passes = tuple(inner)
        """The passes."""
        self.in_order = in_order

    def children(self) -> Sequence[Pass[Module]]:
        """Return the passes."""
        return self.passes

    def branches(self) -> Sequence[Sequence[Pass[Module]]]:
        """Return the passes as the only branch, if they may run one after the other."""
        return (self.parts(),) if self.execution.in_order else ()

    def parts(self) -> Sequence[Pass[Module]]:
        """Return the passes, each in a manager of its own."""
        head = self.element.text
        managers = (*self.element.managers, *([] if head == "module" else [head]))
        return [pass_.within(managers) for pass_ in self.passes]

    def native_text(self) -> str:
        """Return the manager with the passes that are not disabled."""
        group = Sequential(self.passes)
        inner = [pass_.native_text() for pass_ in self.passes if group.pass_enabled(pass_.info)]
        return f"{self.element.text}({','.join(inner)})"

    def transform_module(self, mod: Module, ctx: PassContext) -> Awaitable[Module]:
        """Run the passes in one process, or single ones if something looks in between.

        Raises:
            AdapterError: if `mod` is not an LLVM module, or a pass fails.
            HelperError: if `opt` crashes, or exceeds the time limit.

        """
        if self.execution.in_order and has_hooks():
            return Sequential(self.parts(), name=self.info.name).transform(mod, ctx)
        return super().transform_module(mod, ctx)

    def own_cache_key(self, ctx: PassContext) -> str | None:
        """Return the key with the passes."""
        key = super().own_cache_key(ctx)
        return None if key is None else f"{key}({self.native_text()})"


@lru_cache(maxsize=64)
def _parts_of(opt: Opt, text: str) -> Sequence[Pass[Module]]:
    """Return the parts of a pipeline of `opt`.

    Each Sequential with the pipeline asks for them, to check the order of its passes. A process takes 20 ms.

    Raises:
        AdapterError: if `opt` cannot print the pipeline.

    """
    status, printed = OPT.output_of(opt.path, [f"-passes={text}", "-print-pipeline-passes", "-disable-output"], EMPTY)
    if status:
        raise AdapterError(f"{opt.path.name} cannot print {text}: {printed.strip()}")
    # The printed pipeline ends with a check that each process makes.
    return parse_pipeline(f"llvm:{printed.strip().removesuffix(',verify')}").passes


class OptPipeline(OptPass):
    """A pipeline that `opt` knows by name, such as `default<O2>`.

    Without a level it is that of the context, at most 3. If something looks in between, its parts run one after the
    other: those that `opt` prints for it.
    """

    in_order: bool = True

    def __init__(self, opt: Opt, element: Element, info: PassInfo, time_limit: float = TIME_LIMIT) -> None:
        super().__init__(opt, element, info, time_limit)

    def native_text(self) -> str:
        """Return the pipeline with its level."""
        name = self.element.text
        return name if "<" in name else f"{name}<O{min(PassContext.current().opt_level, MAX_LEVEL)}>"

    def branches(self) -> Sequence[Sequence[Pass[Module]]]:
        """Return the parts as the only branch."""
        return (_parts_of(self.opt, self.native_text()),)

    def own_cache_key(self, ctx: PassContext) -> str | None:
        """Return the key with the level."""
        key = super().own_cache_key(ctx)
        return None if key is None else f"{key}({self.native_text()})"

    def transform_module(self, mod: Module, ctx: PassContext) -> Awaitable[Module]:
        """Run the pipeline in one process, or its parts if something looks in between.

        Raises:
            AdapterError: if `mod` is not an LLVM module, or a pass fails.
            HelperError: if `opt` crashes, or exceeds the time limit.

        """
        if has_hooks() or ctx.disabled_pass:
            return Sequential(self.branches()[0], name=self.info.name).transform(mod, ctx)
        return super().transform_module(mod, ctx)
