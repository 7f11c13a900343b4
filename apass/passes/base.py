"""Passes: what all of them share, the pass over a module, and the pass over functions."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import is_
from types import NoneType
from typing import Any, ClassVar, Generic, Literal, cast

from apass.concurrency.coroutines import is_async, is_awaitable
from apass.core.adapter import FuncT, FunctionKind, ModT, adapter_for, select_functions
from apass.core.analysis import Analysis
from apass.core.analysis_manager import Preserves, with_analyses
from apass.core.context import PassContext, current_scope
from apass.core.executor import Executor, ExecutorChoice, executor_in_force
from apass.core.info import PassInfo
from apass.core.run import RUN, Bodies, Run, current_run
from apass.errors import PassDefinitionError, PassResultError
from apass.guard import Elsewhere, OnError, guarded
from apass.runner.execute import execute
from apass.runner.fan_out import close_all, fan_out, run_inline
from apass.runner.function_hooks import observed
from apass.runner.result_cache import key_of, with_cache
from apass.util.typed_values import write

__all__ = ["FunctionPass", "ModulePass", "OnError", "Pass", "PrimFuncPass", "check_passes"]


class Pass(ABC, Generic[ModT]):
    """What turns a module into a module: `await pass_(mod)`. A pass never changes the module that it is given.

    A pass holds no state of a run, so one object may work on many modules at once.
    """

    info: PassInfo
    """The metadata: level, name, requirements. A subclass sets it, on the class or on `self`."""

    preserves: Preserves = frozenset()
    """The analyses that still hold for what the pass made of a function or module; none but where it says so."""
    analyses: tuple[Analysis[Any], ...] = ()
    """The analyses whose results a pass finds ready, for `ctx.got`."""

    cacheable: bool | Literal["module"] = False
    """Whether the result depends on the input, the options and the config alone, and may be kept in a store; for a
    function pass, `True` function by function, and `"module"` where a body may look at the rest of the module."""
    version: str = "1"
    """The version that results in a store belong to; to be raised when the pass does something else."""
    config_keys: tuple[str, ...] | None = None
    """The config options that the result depends on; None is all that are set."""

    spec: tuple[str, Mapping[str, object]] | None = None
    """The registered name and the options that the pass was made with; what `str()` and `==` go by, where known."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check `info` where the class sets it; PassDefinitionError if it is no PassInfo."""
        super().__init_subclass__(**kwargs)
        info = cls.__dict__.get("info")
        if info is not None and not isinstance(info, PassInfo | property):
            raise PassDefinitionError(f"{cls.__name__}.info must be a PassInfo(opt_level=..., name=...), not {info!r}")

    async def __call__(self, mod: ModT) -> ModT:
        """Run the pass on `mod` in the current `PassContext`, with the hooks of its instruments, and return the result.

        The pass runs whatever its level, even if it is disabled, and its requirements are not resolved: that is what a
        Sequential does with its passes.

        Raises:
            TypeError: if `mod` is None.
            PassResultError: if the pass returns no module.
            Exception: whatever the pass or a hook raises, with a note that says where.

        """
        if mod is None:
            raise TypeError(f"pass {self.info.name!r} was given None, not a module; look at what the module came from")
        scope = current_scope()
        before, parent = RUN.get(), current_run()
        RUN.set(Run(_info(self), parent, pass_=self))
        scope.meet(self.info.name)
        try:
            return await (self._outermost(mod, scope.ctx) if parent is None else execute(self, mod, scope.ctx))
        finally:
            RUN.set(before)

    async def _outermost(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the pass in a turn of the loop of its own, or in what is left of one."""
        try:
            await ctx.gate.enter()
            return await execute(self, mod, ctx)
        finally:
            ctx.gate.leave()

    @abstractmethod
    def transform(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Do the work. The runner calls it, between the hooks; may be `async def`."""

    def children(self) -> Sequence["Pass[ModT]"]:
        """Return the passes that this one is made of; none unless it is a combinator."""
        return ()

    def is_cut_as_one(self) -> bool:
        """Tell whether the end of a budget cuts off the work as a whole, as where there are no passes inside."""
        return not self.children()

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return what the result depends on beside the input; None if it is not to be kept as a whole."""
        return self.own_cache_key(ctx) if self.cacheable else None

    def own_cache_key(self, ctx: PassContext) -> str:
        """Return name and place of definition, version, options and the relevant config, as a text."""
        name, options = self.spec or (self.info.name, self._options())
        place = f"{self.__module__}.{getattr(self, '__qualname__', type(self).__qualname__)}"
        return key_of(f"{name} of {place}", self.version, options, ctx, self.config_keys)

    def _options(self) -> object:
        """Return what tells the pass from others of its class, where no `spec` does: its attributes."""
        return object.__getstate__(self)

    def text(self) -> str:
        """Return the pass as one element of a pipeline's text: `Name{option=value}(children)`.

        Raises:
            TypeError: if an option has a value that has no text.

        """
        name, options = self.spec or (self.info.name, {})
        given = ",".join(f"{key}={write(value)}" for key, value in options.items())
        inner = ",".join(child.text() for child in self.children())
        return name + (f"{{{given}}}" if given else "") + (f"({inner})" if inner else "")

    def __str__(self) -> str:
        """Return the text that `parse_pipeline` reads back."""
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.info.name} opt_level={self.info.opt_level}>"

    def __eq__(self, other: object) -> bool:
        """Two passes are equal if they are the same object, or were made by the same name with the same options."""
        if self is other:
            return True
        if not isinstance(other, Pass) or self.spec is None:
            return False
        mine = (self.spec, self.info, self.children())
        return mine == (other.spec, other.info, other.children())

    def __hash__(self) -> int:
        return id(self) if self.spec is None else hash(self.spec[0])


class ModulePass(Pass[ModT]):
    """A pass over the module as a whole, which may add and remove functions; TVM's `ModulePass`.

    Made by `module_pass`, or by subclassing:

    >>> import anyio
    >>> class Upper(ModulePass[dict[str, str]]):
    ...     info = PassInfo(opt_level=1, name="Upper")
    ...     async def transform_module(self, mod, ctx):
    ...         return {name.upper(): func for name, func in mod.items()}
    >>> anyio.run(Upper(), {"f": "x"})
    {'F': 'x'}

    """

    @abstractmethod
    def transform_module(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Return the new module, or `mod` itself if nothing changed. May be `async def`."""

    def transform(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Call `transform_module`, once the results of `analyses` are there."""
        if self.analyses:
            made: Awaitable[ModT] = with_analyses(self.transform_module, self.analyses)(mod, ctx)
            return made
        return self.transform_module(mod, ctx)


class FunctionPass(Pass[ModT], Generic[ModT, FuncT]):
    """A pass over one function at a time, on all functions of a module concurrently; TVM's `FunctionPass`.

    Every function without a true `SkipOptimization` attribute is given, with the input module, to
    `transform_function`; the results are put in their places together afterwards. So the outcome depends neither on the
    order in which bodies finish nor on how many run at once, and functions can be neither added nor removed.

    A plain `transform_function` runs inline, or in an `executor`. An `async def` one runs concurrently, within the
    context's `max_concurrency`. The first failure cancels the others; the error has a note that names pass, function
    and module.
    """

    kind: ClassVar[FunctionKind] = "function"
    """Which functions the pass visits."""
    timeout: float | None = None
    """Seconds that one function may take before it fails with PassTimeoutError; None is no limit."""
    on_error: OnError = "raise"
    """What to do when a body fails: `"raise"` its error; `"keep"` the function as it was, with a warning in
    `ctx.diag_ctx`; or call a fallback `(func, mod, ctx, error) -> func`, plain or async, which leaves a note there."""
    executor: ExecutorChoice = None
    """Where a plain body runs; None leaves it to the context."""

    @abstractmethod
    def transform_function(self, func: FuncT, mod: ModT, ctx: PassContext) -> FuncT | Awaitable[FuncT]:
        """Return the new function, or `func` itself if nothing changed. May be `async def`."""

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Give each function to `transform_function` and put the results in their places."""
        adapter = adapter_for(mod)
        names, funcs = select_functions(adapter, mod, self.kind)
        if not funcs:
            return mod
        run = current_run() or Run(self.info, None)
        updates = await self._updates(names, funcs, mod, ctx, run)
        return adapter.replace(mod, updates) if updates else mod

    async def _updates(
        self, names: list[str], funcs: list[FuncT], mod: ModT, ctx: PassContext, run: Run
    ) -> Mapping[str, Any]:
        bodies = Bodies(run, names, mod)
        executor = self.executor or ctx.executor
        elsewhere = None if executor is None else self._elsewhere(executor)
        if elsewhere is not None:
            results = await self._fan_out_elsewhere(elsewhere, funcs, mod, ctx, bodies)
        elif is_async(body := self._with_all_asked(self.transform_function, self.timeout, ctx)):
            results = await fan_out(body, funcs, mod, ctx, bodies, ctx.gate)
        else:
            changed = await run_inline(body, names, funcs, mod, ctx, bodies, ctx.gate)
            if not any(map(_is_no_function, set(map(type, changed.values())))):
                return changed
            settled = await _settled(changed, run, ctx)
            results = [settled.get(name, func) for name, func in zip(names, funcs, strict=True)]
        if all(map(is_, results, funcs)):
            return {}
        updates = {n: new for n, old, new in zip(names, funcs, results, strict=True) if new is not old}
        if NoneType in set(map(type, updates.values())):
            name = next(name for name, func in updates.items() if func is None)
            given = f"pass {self.info.name!r} returned None for function {name!r}"
            raise PassResultError(f"{given}; return the new function, or `func` if unchanged")
        return updates

    def _elsewhere(self, executor: ExecutorChoice) -> Executor | None:
        """Return the executor that bodies are to run in, if they can."""
        if not is_async(self.transform_function):
            return executor_in_force(executor)
        if self.executor not in (None, "inline"):
            name = self.info.name
            raise PassDefinitionError(f"pass {name!r} has an executor, which runs plain functions; its body is async")
        return None

    async def _fan_out_elsewhere(
        self, executor: Executor, funcs: list[FuncT], mod: ModT, ctx: PassContext, bodies: Bodies
    ) -> list[Any]:
        async with executor.bodies(self, mod, ctx) as work:
            # The executor looks after the time of a body: work may stand in line.
            body = self._with_all_asked(work, None, ctx)
            return await fan_out(body, funcs, mod, ctx, bodies, ctx.gate)

    def _with_all_asked(self, body: Callable[..., Any], timeout: float | None, ctx: PassContext) -> Callable[..., Any]:
        """Return `body` with all around it that the pass and the context ask for; itself if that is nothing."""
        if self.cacheable is True and ctx.results is not None:
            body = with_cache(body, self.own_cache_key(ctx), ctx.results)
        if timeout is not None or self.on_error != "raise" or _is_limited(ctx):
            # Around the store: what was kept for want of an answer is no result.
            body = partial(guarded, Elsewhere(self.info, self.on_error, body, timeout))
        if self.analyses:
            body = with_analyses(body, self.analyses)
        if ctx.hooks.functions is not None:
            body = observed(body, ctx.hooks.functions)
        return body

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return what the result depends on where it is kept as a whole; None where it is kept by function."""
        return self.own_cache_key(ctx) if self.cacheable == "module" else None

    def is_cut_as_one(self) -> bool:
        """Tell the runner that the end of a budget cuts off each body for itself."""
        return False


class PrimFuncPass(FunctionPass[ModT, FuncT]):
    """A function pass over the functions of kind `"prim_func"`; TVM's `PrimFuncPass`."""

    kind: ClassVar[FunctionKind] = "prim_func"
    """Which functions the pass visits."""


def _info(pass_: Pass[Any]) -> PassInfo:
    info = getattr(pass_, "info", None)
    if not isinstance(info, PassInfo):
        name = type(pass_).__name__
        raise PassDefinitionError(f"{name} has no `info`; set it to PassInfo(opt_level=..., name={name!r})")
    return info


def _is_limited(ctx: PassContext) -> bool:
    return ctx.may_be_limited and current_scope().budget is not None


def _is_no_function(kind: type) -> bool:
    """Tell whether what is of that type is no new function: nothing at all, or still to be awaited."""
    return kind is NoneType or hasattr(kind, "__await__")


async def _settled(changed: Mapping[str, Any], run: Run, ctx: PassContext) -> Mapping[str, Any]:
    """Await what a plain function returned that must be awaited, as a lambda over an async function does."""
    waiting = [name for name, result in changed.items() if is_awaitable(result)]

    async def wait(name: str, _mod: object, _ctx: object) -> Any:
        return await changed[name]

    try:
        results = await fan_out(wait, waiting, None, ctx, Bodies(run, waiting), ctx.gate)
    except BaseException:
        # No worker has come to all of them.
        close_all(changed.values())
        raise
    return {**changed, **dict(zip(waiting, results, strict=True))}


def check_passes(owner: str, passes: object) -> tuple[Pass[Any], ...]:
    """Return `passes` as a tuple of passes; TypeError, saying what `owner` was given, if they are none."""
    if not isinstance(passes, list | tuple):
        raise TypeError(f"{owner} takes a list of passes, not {passes!r}")
    for pass_ in cast("Sequence[object]", passes):
        if not isinstance(pass_, Pass):
            raise TypeError(_not_a_pass(owner, pass_))
    return tuple(cast("Sequence[Pass[Any]]", passes))


def _not_a_pass(owner: str, given: object) -> str:
    if not isinstance(given, type):
        hint = "; make it one with module_pass or function_pass" if callable(given) else ""
        return f"{owner} takes passes, not {given!r}{hint}"
    kind = "a class of passes" if issubclass(given, Pass) else "a class"
    return f"{owner} takes passes, but {given.__name__} is {kind}; write {given.__name__}()"
