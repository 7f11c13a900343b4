"""`Sequential`: runs passes in order, selects by level, and resolves requirements."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from time import perf_counter
from typing import Any, Final

from apass.concurrency.run_locals import RunLocal
from apass.core.adapter import ModT
from apass.core.context import PassContext, PassScope, current_scope
from apass.core.hooks import NO_HOOKS
from apass.core.pass_info import PassInfo
from apass.core.run import RunCursor, current_run
from apass.errors import CyclicRequirementError
from apass.passes.base import Pass, is_enabled, is_selected
from apass.passes.combinator import check_passes
from apass.passes.draft import Draft, offer_draft, take_draft, withdraw_draft
from apass.passes.function_pass import FunctionPass
from apass.passes.order import check_order
from apass.passes.registry import get_required
from apass.runner.contract import reason_missing
from apass.runner.execute import execute

__all__ = ["Sequential"]

_RESOLVING: Final[RunLocal[tuple[str, ...]]] = RunLocal("resolving", ())
"""The names of the passes whose requirements are being resolved, outermost first."""


class Sequential(Pass[ModT]):
    """Passes that run one after the other, each on the result of the previous one.

    A pass is skipped if its name is in the context's `disabled_pass`. Otherwise it runs if its name is in
    `required_pass`, or if its level is at most the context's. The passes that it requires run before it,
    recursively. They are looked up in the registry and run regardless of their level. One that is `idempotent` does not
    run if its last result still holds. Source: TVM's `Sequential`.

    Parameters:
        passes: the passes, in order.
        opt_level: the level of the Sequential itself as an element of another one.
        name: its name.
        required: the passes that it requires as an element of another one.

    Raises:
        PassOrderError: if the `runs_after` or `runs_before` of a pass forbids the order.

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
        self.added_by: Mapping[int, str] = {}
        """What added passes to a registered pipeline, by the index of the pass (see `extend_pipeline`)."""
        self.has_setup = any(pass_.has_setup for pass_ in self.passes)
        self.changes_in_place = any(pass_.execution.changes_in_place for pass_ in self.passes)
        self._has_merging = sum(pass_.execution.merges for pass_ in self.passes) > 1
        self.in_program = bool(self.passes) and all(pass_.execution.in_program for pass_ in self.passes)
        # A subclass may run its passes in another way.
        self.merges = (
            type(self) is Sequential and bool(self.passes) and all(pass_.execution.merges for pass_ in self.passes)
        )
        self.info: PassInfo = PassInfo(opt_level, name, required)
        check_order(self)
        values = {"name": name, "opt_level": opt_level, "required": list(self.info.required)}
        defaults: dict[str, object] = {"name": "sequential", "opt_level": 0, "required": []}
        non_default = {key: value for key, value in values.items() if value != defaults[key]}
        self.spec: tuple[str, Mapping[str, object]] | None = ("Sequential", non_default)

    def children(self) -> tuple[Pass[ModT], ...]:
        """Return the passes."""
        return self.passes

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show no pass.
        from apass.passes.tree import pass_tree

        return pass_tree(self, combines=True)

    def pass_enabled(self, info: PassInfo) -> bool:
        """Return whether the current context selects a pass; TVM's `PassEnabled`.

        >>> Sequential().pass_enabled(PassInfo(opt_level=3, name="Tune"))
        False
        """
        names = next((pass_.all_names for pass_ in self.passes if pass_.info == info), (info.name,))
        return is_selected(info.opt_level, names, PassContext.current())

    def branches(self) -> tuple[tuple[Pass[ModT], ...], ...]:
        """Return the passes as the only branch."""
        return (self.passes,)

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the enabled passes in order."""
        scope = current_scope()
        if self._has_merging and scope.state.hooks is NO_HOOKS and scope.state.store is None:
            return await self._transform_merged(mod, ctx, scope)
        return await self._run_each(self.passes, mod, ctx, scope)

    async def _run_each(self, passes: Sequence[Pass[ModT]], mod: ModT, ctx: PassContext, scope: PassScope) -> ModT:
        """Run the enabled passes in order, each after the passes that it requires."""
        # Without names, this loop needs no `is_enabled`. It reads attributes once, because it runs for every pass.
        selects_by_name = scope.records_passes
        scheduler, level = scope.state.scheduler, ctx.opt_level
        draft = (take_draft(self) or Draft()) if self.execution.changes_in_place else None
        with RunCursor(current_run()) as cursor:
            for pass_ in passes:
                info = pass_.info
                if selects_by_name:
                    scope.record_pass(pass_)
                    if not is_enabled(pass_, ctx):
                        continue
                elif info.opt_level > level:
                    continue
                if perf_counter() > scheduler.slice_ends:
                    await scheduler.yield_to_loop()
                if info.required:
                    mod = await _run_required(info.name, info.required, mod, scope, cursor)
                cursor.item = pass_
                if draft is None:
                    mod = await execute(pass_, mod, scope, cursor)
                elif pass_.execution.changes_in_place and not info.required:
                    offer_draft(pass_, draft)
                    mod = await execute(pass_, mod, scope, cursor)
                    withdraw_draft()
                else:
                    # This pass may keep its input, or what it returns.
                    draft.forget()
                    mod = await execute(pass_, mod, scope, cursor)
        return mod

    async def _transform_merged(self, mod: ModT, ctx: PassContext, scope: PassScope) -> ModT:
        """Run the enabled passes in order, and those that can be merged as one pass."""
        for can_merge, group in groupby(_enabled(self.passes, ctx, scope), key=_can_merge):
            members = list(group)
            leaves = list(_leaves(members, ctx, scope)) if can_merge else []
            merged = leaves[0].merged_with(leaves[1:]) if len(leaves) > 1 else None
            if merged is not None:
                # Any error: the passes then run one by one, and the one that fails raises its own. No hook has seen it.
                with suppress(Exception):
                    mod = await self._run_each([merged], mod, ctx, scope)
                    continue
            mod = await self._run_each(members, mod, ctx, scope)
        return mod

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the keys of the passes that would run; None if one has no key."""
        # A cached result would hide the inner passes from instruments.
        if ctx.instruments:
            return None
        keys = [key for pass_ in self.passes if is_enabled(pass_, ctx) for key in _keys(pass_, ctx)]
        return None if None in keys or not keys else f"{self.info.name}({','.join(map(str, keys))})"

    def __str__(self) -> str:
        """Return the text of the pipeline, without `Sequential(...)` where possible."""
        if self.spec == ("Sequential", {}) and not (len(self.passes) == 1 and isinstance(self.passes[0], Sequential)):
            return ",".join(pass_.text() for pass_ in self.passes)
        return self.text()


def _enabled(passes: Sequence[Pass[ModT]], ctx: PassContext, scope: PassScope) -> Iterator[Pass[ModT]]:
    selects_by_name = scope.records_passes
    for pass_ in passes:
        if selects_by_name:
            scope.record_pass(pass_)
        if is_enabled(pass_, ctx) if selects_by_name else pass_.info.opt_level <= ctx.opt_level:
            yield pass_


def _can_merge(pass_: Pass[Any]) -> bool:
    can_merge = pass_.execution.merges and not pass_.info.required and not pass_.is_limited()
    return can_merge and all(map(_can_merge, pass_.children()))


def _leaves(passes: Sequence[Pass[ModT]], ctx: PassContext, scope: PassScope) -> Iterator[Pass[ModT]]:
    """Iterate over enabled passes, with the passes of a Sequential in its place."""
    for pass_ in passes:
        if isinstance(pass_, Sequential):
            yield from _leaves(list(_enabled(pass_.passes, ctx, scope)), ctx, scope)
        else:
            yield pass_


def _keys(pass_: Pass[Any], ctx: PassContext, trail: tuple[str, ...] = ()) -> Iterator[str | None]:
    """Iterate over the keys of required passes, depth first, and of the pass; or None."""
    trail = (*trail, pass_.info.name)
    for name in pass_.info.required:
        yield from [None] if name in trail else _keys(get_required(name, pass_.info.name), ctx, trail)
    # Within a pipeline, a function pass that is cached by function contributes its key to the whole as well.
    yield (
        pass_.own_cache_key(ctx)
        if isinstance(pass_, FunctionPass) and pass_.caching.cacheable
        else pass_.cache_key(ctx)
    )


async def _run_required(owner: str, required: Sequence[str], mod: Any, scope: PassScope, cursor: RunCursor) -> Any:
    """Run the passes that a pass requires, depth first, and return the new module."""
    # `owner` is the name in the registry, which may differ from the name in `info`.
    trail = (*_RESOLVING.get(), owner)
    with _RESOLVING.set_to(trail):
        for name in required:
            if name in trail:
                raise CyclicRequirementError.at(name, trail)
            pass_ = get_required(name, owner)
            if pass_.contract.idempotent and await _is_settled(pass_, mod, scope):
                scope.record_pass(pass_)
                continue
            if pass_.info.required:
                mod = await _run_required(name, pass_.info.required, mod, scope, cursor)
            scope.record_pass(pass_)
            cursor.item = pass_
            # The passes that a required combinator contains must not require it in turn.
            with _RESOLVING.set_to((*trail, name)):
                mod = await execute(pass_, mod, scope, cursor)
    return mod


async def _is_settled(pass_: Pass[Any], mod: Any, scope: PassScope) -> bool:
    """Return whether an idempotent pass would change nothing in a module.

    It would not if it has returned the module in this context, or if the module has all properties that it ensures.
    """
    if pass_ in (scope.state.settled.get(mod) or ()):
        return True
    if not pass_.contract.ensures:
        return False
    return all([await reason_missing(item, mod, scope.ctx) is None for item in pass_.contract.ensures])
