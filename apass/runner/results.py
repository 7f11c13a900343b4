"""What a pass returned: the check of the module, and the analyses that stay valid."""

from typing import Any

from apass.concurrency.coroutines import is_awaitable, missing_await
from apass.core.adapter import adapter_for, adapter_of_type
from apass.core.analysis_manager import Preserves
from apass.core.context import PassScope
from apass.core.pass_info import PassInfo
from apass.errors import PassResultError

__all__ = ["carry_analyses", "check_module"]


def check_module(result: object, info: PassInfo) -> None:
    """Raise PassResultError unless the result of a pass is a module."""
    if is_awaitable(result):
        raise missing_await(result, f"pass {info.name!r}", "a module")
    kind = result.__class__
    if result is None or adapter_of_type(kind) is None:
        description = "None" if result is None else f"{result!r}, which is no module (a {kind.__qualname__})"
        raise PassResultError(
            f"pass {info.name!r} returned {description}; return the new module, or `mod` if unchanged"
        )


async def carry_analyses(info: PassInfo, preserves: Preserves, mod: Any, result: Any, scope: PassScope) -> None:
    """Carry over the analyses that a pass preserves, for module and functions."""
    # Two adapters: a pass may return a module of another IR.
    before, after = adapter_for(mod), adapter_for(result)
    old = dict(before.functions(mod))
    changed = [(old[name], new) for name, new in after.functions(result) if name in old and old[name] is not new]
    await scope.state.analyses.carry(info.name, preserves, [(mod, result), *changed], scope.ctx, (before, after))
