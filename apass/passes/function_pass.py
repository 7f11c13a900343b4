"""`FunctionPass` and `PrimFuncPass`: passes over one function at a time."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import Field, field
from typing import Any, ClassVar, Generic, dataclass_transform

from apass.concurrency.coroutines import is_async
from apass.core.adapter import FuncT, FunctionKind, ModT, adapter_for, select_functions
from apass.core.context import SCOPE, PassContext, PassScope, current_scope
from apass.core.executor import Executor, executor_in_force, opens_passes
from apass.core.run import Run, current_module_name, current_run
from apass.errors import PassDefinitionError
from apass.passes.base import Pass
from apass.passes.options import BodyOptions
from apass.runner.fan_out import Body, FunctionBatch, run_concurrently, run_inline
from apass.runner.layers import layered_body
from apass.runner.step_hooks import StepHooks

__all__ = ["FunctionPass", "PrimFuncPass"]


@dataclass_transform(eq_default=False, field_specifiers=(field, Field))
class FunctionPass(BodyOptions, Pass[ModT], Generic[ModT, FuncT]):
    """A pass that transforms all functions of a module concurrently.

    `transform_function` is called with the input module for every function without a true `SkipOptimization`
    attribute. The results are inserted together at the end, so the outcome does not depend on scheduling. Functions
    cannot be added or removed. Source: TVM's `FunctionPass`.

    A plain `transform_function` runs inline, or in an `executor`. An `async def` one runs concurrently, within the
    context's `max_concurrency`. The first failure cancels the others; the error has a note that names pass, function
    and module.
    """

    kind: ClassVar[FunctionKind] = "function"
    """The kind of functions that the pass transforms."""

    @abstractmethod
    def transform_function(self, func: FuncT, mod: ModT, ctx: PassContext) -> FuncT | Awaitable[FuncT]:
        """Return the new function, or `func` if unchanged; may be `async def`."""

    @property
    def pass_func(self) -> Callable[[FuncT, ModT, PassContext], FuncT | Awaitable[FuncT]]:
        """The function of the pass, or its `transform_function`, under TVM's name."""
        return self.transform_function

    def skip_function(self, func: FuncT, mod: ModT) -> bool:
        """Return whether the pass leaves a function of a module as it is.

        The adapter of the module decides: such a function has a true `SkipOptimization` attribute. TVM's method of this
        name takes no module.
        """
        return adapter_for(mod).skips(func)

    def expect_functions(self, names: Sequence[str], mod: ModT, ctx: PassContext) -> None:
        """Note the functions whose bodies an executor runs next, one after the other.

        It is called in the worker, before `transform_function` of the first of them. Override it if computing several
        results together is faster. By default it does nothing.
        """

    def runs_inline(self, mod: ModT) -> bool:
        """Return whether the bodies run in the event loop, whatever the executor.

        Override it if a call in a thread takes longer than the bodies on a small module. By default it returns False.
        """
        return False

    def is_observed(self) -> bool:
        """Return whether something looks at single functions.

        This is a hook, a store, a deadline or a limit of the pass. Without any, an override of `transform` may compute
        the same module in another way.
        """
        scope = current_scope()
        return not scope.is_plain or scope.state.hooks.functions is not None or self.is_limited()

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Call `transform_function` for each function, and apply the results together."""
        adapter = adapter_for(mod)
        names, funcs = select_functions(adapter, mod, self.kind)
        if not funcs:
            return mod
        scope = SCOPE.get() or current_scope()
        run = current_run() or Run(self.info, None, module=current_module_name())
        batch = FunctionBatch(run, names, funcs, mod, ctx, scope.state.scheduler)
        hooks = scope.state.hooks.functions
        if hooks is None or not hooks.steps:
            changed = await self._run_bodies(batch, scope, None)
        else:
            steps = StepHooks(hooks.steps)
            changed = await steps.surround(self._run_bodies(batch, scope, steps))
        return adapter.replace(mod, changed) if changed else mod

    async def _run_bodies(self, batch: FunctionBatch, scope: PassScope, steps: StepHooks | None) -> Mapping[str, Any]:
        """Run the bodies of a batch, and return the new functions by name."""
        executor = None
        has_executor = self.executor is not None or batch.ctx.executor is not None
        if has_executor and not self.runs_inline(batch.mod):
            executor = self._executor(batch.ctx)
        if executor is None:
            body: Body = self.transform_function
            # Most passes need no layer, and are not slowed by the look at each.
            is_bare = scope.is_plain and scope.state.hooks.functions is None
            if not is_bare or self.analyses or self.timeout is not None or self.on_error != "raise":
                body = layered_body(body, self, scope, self.timeout, steps)
            return await (run_concurrently if is_async(body) else run_inline)(body, batch)
        async with executor.bodies(self, batch.mod, batch.ctx) as remote_body:
            # The executor itself limits the time of a body, because time in its queue must not count.
            return await run_concurrently(layered_body(remote_body, self, scope, None, steps), batch)

    def opens_here(self, ctx: PassContext) -> bool:
        """Return whether the bodies can use what this event loop opens."""
        choice = self.executor or ctx.executor
        return is_async(self.transform_function) or not opens_passes(executor_in_force(choice))

    def _executor(self, ctx: PassContext) -> Executor | None:
        """Return the executor that runs the bodies; None for the thread of the event loop."""
        choice = self.executor or ctx.executor
        if choice is None:
            return None
        if not is_async(self.transform_function):
            return executor_in_force(choice)
        if self.executor not in (None, "inline"):
            name = self.info.name
            raise PassDefinitionError(f"pass {name!r} has an executor, but its body is async; executors run plain ones")
        return None

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the key of the whole result; None if results are cached by function."""
        return self.own_cache_key(ctx) if self.caching.cacheable == "module" else None

    def runs_as_whole(self) -> bool:
        """Return False: a deadline applies to each body."""
        return False


class PrimFuncPass(FunctionPass[ModT, FuncT]):
    """A function pass over the functions of kind `"prim_func"`; TVM's `PrimFuncPass`."""

    kind: ClassVar[FunctionKind] = "prim_func"
    """The kind of functions that the pass transforms."""
