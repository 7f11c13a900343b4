"""The passes of llvmlite, which run in this process."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import get_native_id
from time import perf_counter
from typing import Any, Final, Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from apass.adapters.llvm import ADAPTER, Function, Module
from apass.adapters.llvm.library import HAS_LLVMLITE, TUNING, VERSION, run_on_functions, run_on_module
from apass.adapters.llvm.passes.opt_passes import MAX_LEVEL
from apass.adapters.llvm.passes.opt_runs import check_module
from apass.adapters.llvm.passes.private_run import changed_functions
from apass.adapters.llvm.passes.table import PassEntry, function_passes, module_passes
from apass.core.context import PassContext, waiting_for
from apass.core.executor import in_executor
from apass.core.pass_info import PassInfo
from apass.errors import PassDefinitionError
from apass.passes.base import ModulePass, Pass
from apass.passes.function_pass import FunctionPass

__all__ = [
    "OPT_TUNING",
    "PIPELINES",
    "LLVMFunctionPass",
    "LLVMModulePass",
    "Level",
    "LibraryEntry",
    "VerifierPass",
    "library_passes",
]

R = TypeVar("R")

PIPELINES: Final[Mapping[str, tuple[int, str]]] = {
    "O0": (0, ""),
    "O1": (1, ""),
    "O2": (2, ""),
    "O3": (3, ""),
    "Os": (2, "optsize"),
    "Oz": (2, "minsize optsize"),
}
"""The level of each pipeline of LLVM, and the attributes that functions get first."""

OPT_TUNING: Final[Mapping[str, Mapping[str, bool]]] = {
    "O1": {"loop_vectorization": False},
    "O2": {"slp_vectorization": True},
    "O3": {"slp_vectorization": True},
    "Os": {"slp_vectorization": True},
    "Oz": {"loop_vectorization": False},
}
"""The tuning options of `opt` for each level, where llvmlite has others."""

Level = Literal["O0", "O1", "O2", "O3", "Os", "Oz"] | None
"""The level of a pipeline; None is that of the context."""

_THREADS: RunVar[CapacityLimiter] = RunVar("apass_llvm_threads")

_Add = Callable[[Any, Any], Any]


def _add(method: str, options: Mapping[str, Any], create: Callable[[], Any], _builder: Any) -> Any:
    manager = create()
    getattr(manager, method)(**options)
    return manager


def _default_pipeline(_create: Any, builder: Any) -> Any:
    return builder.getModulePassManager()


def _simplification_pipeline(_create: Any, builder: Any) -> Any:
    return builder.getFunctionPassManager()


class LLVMFunctionPass(FunctionPass[Module, Function]):
    """A pass of LLVM over one function.

    It runs on a private module with the function and what it uses, and the result is inserted into the module. The
    pass runs on the whole module instead if that is the only way to get LLVM's result: if the module has a construct
    of `Skeleton.is_divisible`, or if the pass changes something outside of functions, such as the alignment of a
    variable. If nothing looks at single functions, and no executor runs them at once, a pass that is `in_order` also
    runs on the whole module: LLVM then reads and prints it once.

    Parameters:
        info: level and name of the pass.
        add: returns the pass manager.
        level: the level of optimization for speed.
        tuning: values of the tuning options.
        in_order: whether functions see what the pass found out about earlier functions, such as the range of results.
            It is then written in the headers of these functions.

    """

    cacheable: bool | Literal["module"] = True
    version: str = VERSION
    native: bool = True

    def __init__(
        self, info: PassInfo, add: _Add, level: int = 2, tuning: Mapping[str, Any] | None = None, in_order: bool = True
    ) -> None:
        self.info = info
        self._add, self._level, self._tuning, self._in_order = add, level, tuning or {}, in_order

    def transform_function(self, func: Function, mod: Module, ctx: PassContext) -> Function:
        """Run the pass on a private module with the function and its neighbours.

        LLVM reads and prints several functions faster together. The results of the others are kept for their bodies.
        """
        if not self._in_order:
            # In a group, LLVM would write into headers that the next functions of the group use.
            return self._run_on([func])[0]
        results = mod.results_of(self)
        if func.token not in results.changed:
            names = results.expected
            group = [mod.functions[name] for name in names] if func.name in names else mod.group_of(func)
            group = [one for one in group if one is func or not ADAPTER.skips(one)]
            changed = self._run_on(group)
            if len(group) > 1 and any(one.outside for one in changed):
                # Find out which function it was.
                changed = [result for one in group for result in self._run_on([one])]
            results.changed.update((old.token, (old, new)) for old, new in zip(group, changed, strict=True))
        old, new = results.changed[func.token]
        # An instrument may have replaced the function.
        return new if old is func else self._run_on([func])[0]

    def expect_functions(self, names: Sequence[str], mod: Module, ctx: PassContext) -> None:
        """Note the functions that LLVM is to read and print together."""
        mod.results_of(self).expected = tuple(names)

    def _run_on(self, funcs: Sequence[Function], also: Iterable[str] = ()) -> list[Function]:
        names = [func.name for func in funcs]
        run = partial(run_on_functions, names=names, add=self._add, level=self._level, tuning=self._tuning)
        return changed_functions(funcs, run, also, in_order=self._in_order)

    async def transform(self, mod: Module, ctx: PassContext) -> Module:
        """Run the pass on each function, or on the module.

        Raises:
            AdapterError: if `mod` is not an LLVM module.

        """
        check_module(self.info, mod)
        names = ADAPTER.select(mod, "function")[0]
        if not names:
            return mod
        run_on_all = partial(self._run_on_all, mod, names)
        if mod.skeleton.is_divisible:
            if self._in_order and self._executor(ctx) is None and not self.is_observed():
                # Any error: each function then runs alone, and the one that fails raises its own.
                with suppress(Exception):
                    return await _in_thread(mod, run_on_all, ctx)
            result = await super().transform(mod, ctx)
            if result.outside:
                result = await _in_thread(mod, partial(self._run_in_order, mod, result, names), ctx)
            return result
        return await _in_thread(mod, run_on_all, ctx)

    def _run_on_all(self, mod: Module, names: list[str]) -> Module:
        text = run_on_functions(mod.text, names, self._add, self._level, self._tuning)
        return mod if text == mod.text else Module.of_printed(text)

    def _run_in_order(self, mod: Module, result: Module, names: list[str]) -> Module:
        """Return the module after a pass that changed something outside of functions.

        LLVM runs a pass on one function after the other, so later functions see the change. The pass runs again on
        those that use what changed.
        """
        if any(line == "" for changes in result.outside.values() for line in changes.values()):
            return self._run_on_all(mod, names)
        also = {token for changes in result.outside.values() for token in changes}
        # The result has the numbers of all functions, but also the headers that later functions got.
        skeleton, changed = result.skeleton.with_lines(mod.skeleton.functions), set[str]()
        updates: dict[str, Function] = {}
        for name in names:
            func = mod.functions[name]
            if func.token in result.outside or not changed.isdisjoint(func.entries):
                (new,) = self._run_on([replace(func, skeleton=skeleton)], also)
                updates[name] = replace(new, outside={})
                if "" in new.outside.values():
                    return self._run_on_all(mod, names)
                if new.outside:
                    changed.update(new.outside)
                    skeleton = skeleton.with_lines(new.outside)
        return Module(skeleton, result.definitions).with_functions(updates)


class LLVMModulePass(ModulePass[Module]):
    """A pass or a pipeline of LLVM over a module.

    It runs in a worker thread unless the module is small. LLVM has one lock for all threads, so passes of several
    modules run one after the other; use processes to run them at once.

    Parameters:
        info: level and name of the pass.
        add: returns the pass manager.
        level: the level of optimization for speed.
        tuning: values of the tuning options.
        attributes: attributes that functions get first.

    """

    cacheable: bool | Literal["module"] = True
    version: str = VERSION
    native: bool = True

    def __init__(
        self, info: PassInfo, add: _Add, level: int = 2, tuning: Mapping[str, Any] | None = None, attributes: str = ""
    ) -> None:
        self.info = info
        self._add, self._level, self._tuning, self._attributes = add, level, tuning or {}, attributes

    def transform_module(self, mod: Module, ctx: PassContext) -> Module | Awaitable[Module]:
        """Run the pass.

        Raises:
            AdapterError: if `mod` is not an LLVM module, or LLVM has no target for it.
            VerifyError: if `mod` is invalid.

        """
        check_module(self.info, mod)
        return _in_thread(mod, partial(self._run, mod), ctx)

    def _run(self, mod: Module) -> Module:
        before, after = run_on_module(mod.raw_text, self._add, self._level, self._tuning, self._attributes.split())
        return mod if after == before else Module.of_printed(after)


class _ByLevel(ModulePass[Module]):
    """Runs the pipeline of LLVM for the level of the context, at most 3."""

    def __init__(self, info: PassInfo, tuning: Mapping[str, Any]) -> None:
        self.info = info
        self._tuning = tuning

    def transform_module(self, mod: Module, ctx: PassContext) -> Module | Awaitable[Module]:
        """Run the pipeline."""
        level = f"O{min(ctx.opt_level, MAX_LEVEL)}"
        pipeline = _pipeline(self.info, level=level, **self._tuning)
        return pipeline.transform_module(mod, ctx)


class VerifierPass(ModulePass[Module]):
    """Check a module with LLVM's verifier; an invalid one raises VerifyError."""

    def __init__(self, info: PassInfo) -> None:
        self.info = info

    def transform_module(self, mod: Module, ctx: PassContext) -> Module | Awaitable[Module]:
        """Check the module and return it."""
        check_module(self.info, mod)

        def check() -> Module:
            ADAPTER.verify(mod)
            return mod

        return _in_thread(mod, check, ctx)


async def _in_thread(mod: Module, work: Callable[[], R], ctx: PassContext) -> R:
    """Call `work`, in a thread unless the module is small, or this is an executor."""
    if in_executor() or ADAPTER.is_small(mod):
        return work()

    def timed() -> R:
        start = perf_counter()
        try:
            return work()
        finally:
            ctx.report_work(f"thread {get_native_id()}", start, perf_counter())

    with waiting_for("its worker thread"):
        return await to_thread.run_sync(timed, limiter=_threads())


def _threads() -> CapacityLimiter:
    """Return the thread limiter of this event loop, which allows one thread."""
    # llvmlite has one lock, so a second thread would only wait for it.
    try:
        return _THREADS.get()
    except LookupError:
        _THREADS.set(CapacityLimiter(1))
        return _THREADS.get()


def _option(name: str, kind: type) -> inspect.Parameter:
    optional: Any = kind | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=optional)


_TUNING: Final = tuple(_option(name, kind) for name, kind in TUNING.items())


def _function_pass(entry: PassEntry, info: PassInfo, **options: Any) -> Pass[Module]:
    return LLVMFunctionPass(info, partial(_add, entry.method, _with_defaults(entry, options)))


def _module_pass(entry: PassEntry, info: PassInfo, **options: Any) -> Pass[Module]:
    return LLVMModulePass(info, partial(_add, entry.method, _with_defaults(entry, options)))


def _with_defaults(entry: PassEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    return {**{one.name: one.default for one in entry.options}, **options}


def _pipeline(info: PassInfo, *, level: str | None = None, **tuning: Any) -> ModulePass[Module]:
    if level is None:
        return _ByLevel(info, tuning)
    number, attributes = PIPELINES[level]
    return LLVMModulePass(info, _default_pipeline, number, {**OPT_TUNING.get(level, {}), **tuning}, attributes)


def _function_simplification(info: PassInfo, *, level: str | None = None, **tuning: Any) -> Pass[Module]:
    numbers = {"O1": 1, "O2": 2, "O3": 3}
    if level not in (None, *numbers):
        raise PassDefinitionError(f"the option level of {info.name} in llvmlite must be O1, O2 or O3, got {level!r}")
    return LLVMFunctionPass(info, _simplification_pipeline, numbers[level or "O2"], tuning, in_order=False)


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """How llvmlite makes a pass."""

    make: Callable[..., Pass[Module]]
    """Returns the pass for a PassInfo and options."""
    options: tuple[inspect.Parameter, ...] = ()
    """The options."""
    doc: str = ""
    """What the pass does."""
    class_name: str = ""
    """The name of LLVM's class without `Pass`."""


def library_passes() -> Mapping[str, LibraryEntry]:
    """Return the passes of llvmlite by LLVM's names; none if it is not installed."""
    if not HAS_LLVMLITE:
        return {}
    entries = {
        entry.name: LibraryEntry(partial(make, entry), entry.options, f"Run the pass on {what}.", entry.class_name)
        for make, passes, what in (
            (_function_pass, function_passes(), "each function"),
            (_module_pass, module_passes(), "a module"),
        )
        for entry in passes.values()
    }
    level = inspect.Parameter("level", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Level)
    return {
        **entries,
        "default": LibraryEntry(_pipeline, (level, *_TUNING), "Run the pipeline of LLVM for -O0 to -Oz on a module."),
        "function-simplification": LibraryEntry(
            _function_simplification, (level, *_TUNING), "Run the simplification pipeline on each function."
        ),
        "verify": LibraryEntry(VerifierPass, (), "Check a module with LLVM's verifier.", "Verifier"),
    }
