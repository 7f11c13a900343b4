"""RemoveUnusedFunctions: functions that no entry function reaches go; TVM's `removed_unused_funcs.cc`."""

from collections.abc import Iterable

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.expr import GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.transform.support.decorators import module_pass

__all__ = ["RemoveUnusedFunctions", "remove_unused_functions"]


def remove_unused_functions(mod: IRModule, entry_functions: Iterable[str] = ("main",)) -> IRModule:
    """Return a module without the functions that no entry function reaches; the same module if there is none.

    Raises:
        KeyError: if there is no function of one of the names; the message suggests the nearest.

    >>> from apass.relay.function import Function
    >>> from apass.relay.make import var
    >>> x = var("x")
    >>> mod = IRModule({GlobalVar(name): Function([x], x) for name in ("main", "other")})
    >>> remove_unused_functions(mod)
    <relay.IRModule of @main>
    """
    work = list(entry_functions)
    used: set[str] = set()
    while work:
        name = work.pop()
        if name not in used:
            used.add(name)
            work += [node.name_hint for node in post_order(mod[name]) if isinstance(node, GlobalVar)]
    unused = [gvar.name_hint for gvar in mod.get_global_vars() if gvar.name_hint not in used]
    return mod.without_functions(unused) if unused else mod


@provide_pass("RemoveUnusedFunctions")
def RemoveUnusedFunctions(entry_functions: list[str] | None = None) -> ModulePass[IRModule]:
    """Remove the functions that no entry function reaches; the entry is `main` if none is given.

    A module that has no `main` stays as it is if none is given.
    """

    def remove(mod: IRModule, ctx: PassContext) -> IRModule:
        if entry_functions is None and "main" not in mod:
            return mod
        return remove_unused_functions(mod, ["main"] if entry_functions is None else entry_functions)

    return module_pass(remove, opt_level=1, name="RemoveUnusedFunctions")
