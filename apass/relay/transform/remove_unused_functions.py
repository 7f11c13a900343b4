"""RemoveUnusedFunctions: drop functions that no entry function reaches.

The counterpart of TVM's `removed_unused_funcs.cc`.
"""

from collections.abc import Iterable

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.transform.support.module_pass import module_pass

__all__ = ["RemoveUnusedFunctions", "remove_unused_functions"]


def remove_unused_functions(mod: IRModule, entry_functions: Iterable[str] = ("main",)) -> IRModule:
    """Return the module without unreachable functions; the same if there are none.

    A function is reachable if an entry function refers to it, directly or through others.

    Raises:
        KeyError: if the module has no function of a given name; the message suggests the nearest name.

    >>> from apass.relay.ir.function import Function
    >>> from apass.relay.ir.expr import var
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
    """Remove functions that no entry function reaches; the default entry is `main`.

    If no entry is given and the module has no `main`, the module is left as it is.
    """

    def remove(mod: IRModule, ctx: PassContext) -> IRModule:
        if entry_functions is None and "main" not in mod:
            return mod
        return remove_unused_functions(mod, ["main"] if entry_functions is None else entry_functions)

    return module_pass(remove, opt_level=1, name="RemoveUnusedFunctions")
