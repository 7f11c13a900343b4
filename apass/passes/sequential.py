"""`Sequential`: passes one after the other, which alone decides by level and resolves requirements."""

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from apass.core.adapter import ModT
from apass.core.context import PassContext, Scope, current_scope
from apass.core.info import PassInfo
from apass.core.run import RUN, Steps, current_run
from apass.errors import CyclicRequirementError
from apass.passes.base import FunctionPass, Pass, check_passes
from apass.passes.registry import get_required
from apass.runner.execute import execute, execute_bare, execute_between_hooks

__all__ = ["Sequential", "is_enabled"]

_RESOLVING: ContextVar[tuple[str, ...]] = ContextVar("apass_resolving", default=())


class Sequential(Pass[ModT]):
    """Passes that run one after the other, each on the module that the one before it returned; TVM's `Sequential`.

    A pass runs if its name is not in the context's `disabled_pass`, and it is in `required_pass` or its level is not
    above the context's. Before it, each pass that it requires runs, by name through the registry and whatever its
    level; and before that, what that one requires.

    Parameters:
        passes: the passes, in order.
        opt_level: the level of the sequence itself, where it stands in another one.
        name: its name.
        required: what it requires, where it stands in another one.

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
    ) -> None:
        self.passes: tuple[Pass[ModT], ...] = check_passes("Sequential", passes or ())
        """The passes, in order."""
        self.info = PassInfo(opt_level, name, required)
        given = {"name": name, "opt_level": opt_level, "required": list(self.info.required)}
        usual: dict[str, object] = {"name": "sequential", "opt_level": 0, "required": []}
        self.spec = ("Sequential", {key: value for key, value in given.items() if value != usual[key]})

    def children(self) -> tuple[Pass[ModT], ...]:
        """Return the passes."""
        return self.passes

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the enabled passes in order, each after what it requires."""
        scope = current_scope()
        named = ctx.disabled_pass or ctx.required_pass
        gate, level = ctx.gate, ctx.opt_level
        # Looked at once: what a pass costs here is what the runner costs.
        is_plain = ctx.results is None and not ctx.may_be_limited
        before = RUN.get()
        steps = Steps(current_run())
        RUN.set(steps)
        try:
            for pass_ in self.passes:
                info = pass_.info
                if named:
                    scope.meet(info.name)
                    if info.name in ctx.disabled_pass:
                        continue
                if info.opt_level > level and info.name not in ctx.required_pass:
                    continue
                if perf_counter() > gate.turn_ends:
                    await gate.next_turn()
                if info.required:
                    mod = await _run_required(info.name, info.required, mod, scope, steps)
                steps.at = pass_
                if is_plain:
                    mod = await (execute_between_hooks if ctx.hooks.instruments else execute_bare)(pass_, mod, ctx)
                else:
                    mod = await execute(pass_, mod, ctx)
        finally:
            RUN.set(before)
        return mod

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the keys of the passes that would run; None if one has none, or an instrument would not see them."""
        if ctx.hooks.instruments:
            return None
        keys = [key for one in self.passes if is_enabled(one.info, ctx) for key in _keys(one, ctx)]
        return None if None in keys or not keys else f"{self.info.name}({','.join(map(str, keys))})"

    def __str__(self) -> str:
        """Return the text of the pipeline: the passes with commas, in `Sequential(...)` only where that is needed."""
        if self.spec == ("Sequential", {}) and not (len(self.passes) == 1 and isinstance(self.passes[0], Sequential)):
            return ",".join(pass_.text() for pass_ in self.passes)
        return self.text()


def is_enabled(info: PassInfo, ctx: PassContext) -> bool:
    """Tell whether a Sequential runs a pass: by its level, and by name."""
    in_level = info.opt_level <= ctx.opt_level or info.name in ctx.required_pass
    return in_level and info.name not in ctx.disabled_pass


def _keys(pass_: Pass[Any], ctx: PassContext, trail: tuple[str, ...] = ()) -> Iterator[str | None]:
    """Give the keys of what a pass requires, depth first, and its own; None for one that has none."""
    trail = (*trail, pass_.info.name)
    for name in pass_.info.required:
        yield from [None] if name in trail else _keys(get_required(name, pass_.info.name), ctx, trail)
    # As a part of a pipeline a function pass is kept as a whole, too.
    yield pass_.own_cache_key(ctx) if isinstance(pass_, FunctionPass) and pass_.cacheable else pass_.cache_key(ctx)


async def _run_required(owner: str, required: Sequence[str], mod: Any, scope: Scope, steps: Steps) -> Any:
    """Run what a pass requires, depth first; the pass goes by the name that it is required by itself."""
    trail = (*_RESOLVING.get(), owner)
    token = _RESOLVING.set(trail)
    try:
        for name in required:
            if name in trail:
                raise CyclicRequirementError.at(name, trail)
            pass_ = get_required(name, owner)
            if pass_.info.required:
                mod = await _run_required(name, pass_.info.required, mod, scope, steps)
            scope.meet(name)
            # Its own passes, if it has any, must not require their way back to it.
            _RESOLVING.set((*trail, name))
            steps.at = pass_
            mod = await execute(pass_, mod, scope.ctx)
            _RESOLVING.set(trail)
    finally:
        _RESOLVING.reset(token)
    return mod
