"""The passes `llvm.*`: those of llvmlite, and the pipelines O0 to Oz."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import get_native_id
from time import perf_counter
from typing import Any, Final, Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from apass.adapters.llvm import ADAPTER, Function, Module
from apass.adapters.llvm.library import TUNING, VERSION, run_on_functions, run_on_module
from apass.adapters.llvm.passes.private_run import changed_functions
from apass.adapters.llvm.passes.table import LEFT_OUT, PassEntry, function_passes, module_passes
from apass.core.context import PassContext, waiting_for
from apass.core.executor import in_executor
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass, Pass
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import get_pass, provide_pass

__all__ = [
    "LEFT_OUT",
    "PIPELINES",
    "DefaultPipeline",
    "LLVMFunctionPass",
    "LLVMModulePass",
    "PassEntry",
    "VerifierPass",
]

R = TypeVar("R")

PREFIX: Final = "llvm."
"""The prefix of the names of these passes."""

PIPELINES: Final[Mapping[str, tuple[int, str]]] = {
    "O0": (0, ""),
    "O1": (1, ""),
    "O2": (2, ""),
    "O3": (3, ""),
    "Os": (2, "optsize"),
    "Oz": (2, "minsize optsize"),
}
"""The level of each pipeline of LLVM, and the attributes that functions get first."""

MAX_LEVEL: Final = 3
"""The highest level of LLVM."""

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
        _check_module(self.info, mod)
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
        _check_module(self.info, mod)
        return _in_thread(mod, partial(self._run, mod), ctx)

    def _run(self, mod: Module) -> Module:
        before, after = run_on_module(mod.raw_text, self._add, self._level, self._tuning, self._attributes.split())
        return mod if after == before else Module.of_printed(after)


class DefaultPipeline(ModulePass[Module]):
    """Runs the pipeline of LLVM for the level of the context, the option `-O`.

    Levels above 3 run `llvm.O3`.
    """

    info: PassInfo = PassInfo(0, f"{PREFIX}Default")

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        """Run the pipeline as a pass of its own."""
        pipeline: Pass[Module] = get_pass(f"{PREFIX}O{min(ctx.opt_level, MAX_LEVEL)}")
        return await pipeline(mod)


class VerifierPass(ModulePass[Module]):
    """Check a module with LLVM's verifier; an invalid one raises VerifyError."""

    def __init__(self, info: PassInfo) -> None:
        self.info = info

    def transform_module(self, mod: Module, ctx: PassContext) -> Module | Awaitable[Module]:
        """Check the module and return it."""
        _check_module(self.info, mod)

        def check() -> Module:
            ADAPTER.verify(mod)
            return mod

        return _in_thread(mod, check, ctx)


def _check_module(info: PassInfo, mod: object) -> None:
    if isinstance(mod, Module):
        return
    kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
    hint = "; use apass.adapters.llvm.Module.from_llvm(mod)" if kind.startswith("llvmlite.") else ""
    raise AdapterError(f"pass {info.name!r} needs an apass.adapters.llvm.Module, got {kind}{hint}")


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


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _provide_function_pass(entry: PassEntry) -> None:
    info = PassInfo(0, f"{PREFIX}{entry.name}")
    defaults = {one.name: one.default for one in entry.options}

    def factory(**options: Any) -> LLVMFunctionPass:
        return LLVMFunctionPass(info, partial(_add, entry.method, {**defaults, **options}))

    provide_pass(info.name, options=entry.options, doc=_doc(entry, "each function"))(factory)


def _provide_module_pass(entry: PassEntry) -> None:
    info = PassInfo(0, f"{PREFIX}{entry.name}")
    defaults = {one.name: one.default for one in entry.options}

    def factory(**options: Any) -> LLVMModulePass:
        return LLVMModulePass(info, partial(_add, entry.method, {**defaults, **options}))

    provide_pass(info.name, options=entry.options, doc=_doc(entry, "a module"))(factory)


def _provide_pipeline(name: str, level: int, attributes: str) -> None:
    info = PassInfo(0, f"{PREFIX}{name}")

    def factory(**options: Any) -> LLVMModulePass:
        return LLVMModulePass(info, _default_pipeline, level, _given(options), attributes)

    first = f" Functions get the attributes `{attributes}` first." if attributes else ""
    doc = f"Run the pipeline of LLVM for -{name} on a module.{first}\n\nOptions are those of llvmlite's tuning."
    provide_pass(info.name, options=_TUNING, doc=doc)(factory)


def _function_simplification(options: Mapping[str, Any]) -> LLVMFunctionPass:
    level = options.get("level", 2)
    if level not in (1, 2, 3):
        raise AdapterError(f"the option level of llvm.FunctionSimplification must be 1, 2 or 3, got {level!r}")
    tuning = _given({name: value for name, value in options.items() if name != "level"})
    info = PassInfo(0, f"{PREFIX}FunctionSimplification")
    return LLVMFunctionPass(info, _simplification_pipeline, level, tuning, in_order=False)


def _doc(entry: PassEntry, what: str) -> str:
    return f"Run the pass {entry.name} of LLVM on {what}.\n\nIt is added by `{entry.method}` of llvmlite."


def _register_all() -> None:
    for entry in function_passes().values():
        _provide_function_pass(entry)
    for entry in module_passes().values():
        _provide_module_pass(entry)
    for name, (level, attributes) in PIPELINES.items():
        _provide_pipeline(name, level, attributes)
    level_option = inspect.Parameter("level", inspect.Parameter.KEYWORD_ONLY, default=2, annotation=int)
    doc = (
        "Run LLVM's simplification pipeline on each function.\n\n"
        "It is that of llvmlite's `PassBuilder.getFunctionPassManager`, for the level 1, 2 or 3. Each function sees "
        "the input module, not what LLVM found out about other functions."
    )

    def simplification(**options: Any) -> LLVMFunctionPass:
        return _function_simplification(options)

    def verifier() -> VerifierPass:
        return VerifierPass(PassInfo(0, f"{PREFIX}Verifier"))

    provide_pass(f"{PREFIX}FunctionSimplification", options=[level_option, *_TUNING], doc=doc)(simplification)
    doc = "Run `llvm.O0` to `llvm.O3`, by the level of the context (`-O` on the command line)."
    provide_pass(f"{PREFIX}Default", doc=doc)(DefaultPipeline)
    provide_pass(f"{PREFIX}Verifier", doc="Check a module with LLVM's verifier.")(verifier)


_register_all()
