"""Inline: replace calls of functions marked `Inline` by their bodies.

The counterpart of TVM's `inline.cc`.

Callees are processed first. A function is inlined if it then calls no global function, itself included. Three uses are
replaced by the function itself, not by its body:

- a call of a function for another compiler
- a call of a function with type parameters
- a function that is used as a value

TVM substitutes the arguments for the parameters. This pass preserves the meaning of programs with cells: it binds an
argument that makes, reads or writes a cell by a Let, and each call site gets cells of its own.
"""

from collections.abc import Iterable

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.ir.expr import Call, Expr, GlobalVar, Let, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.rewrite.renaming import copied, renewed
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.transform.support.reporting import remark_on_inlining
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["Inline", "inline"]


def inline(mod: IRModule) -> IRModule:
    """Return a module with the marked functions inlined and unneeded ones removed.

    >>> from apass.relay.ir.expr import var
    >>> x, y, f = var("x"), var("y"), GlobalVar("f")
    >>> mod = IRModule({f: Function([x], x, attrs={"Inline": 1}), GlobalVar("main"): Function([y], Call(f, [y]))})
    >>> inlined = inline(mod)
    >>> inlined, inlined["main"].body
    (<relay.IRModule of @main>, <relay.Var %y>)
    """
    graph = {gvar.name_hint: _called(mod[gvar]) for gvar in mod.get_global_vars()}
    state = _InlineState(mod, graph)
    for name in _callees_first(graph):
        state.inline_into(name)
    return state.result()


@provide_pass("Inline")
def Inline() -> ModulePass[IRModule]:
    """Replace calls of functions marked `Inline` by the functions' bodies."""
    return module_pass(_inline, opt_level=1, name="InlineGlobals")


def _inline(mod: IRModule, ctx: PassContext) -> IRModule:
    result = inline(mod)
    if ctx.wants_remarks:
        remark_on_inlining(ctx, mod, result)
    return result


def _called(func: Function) -> list[str]:
    """Return the names of the global functions that a function refers to."""
    return list(dict.fromkeys(node.name_hint for node in post_order(func) if isinstance(node, GlobalVar)))


def _callees_first(graph: dict[str, list[str]]) -> list[str]:
    """Return the functions with callees before callers, except in a cycle."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    for root in graph:
        stack = [root]
        while stack:
            name = stack[-1]
            callees = [] if name in entered else graph[name]
            below = [callee for callee in callees if callee in graph and callee not in entered]
            entered.add(name)
            if below:
                stack += reversed(below)
            else:
                order[stack.pop()] = None
    return list(order)


class _InlineState:
    """The functions of a module while calls are inlined."""

    def __init__(self, mod: IRModule, graph: dict[str, list[str]]) -> None:
        self._mod = mod
        self._called = graph
        self._functions = {gvar.name_hint: mod[gvar] for gvar in mod.get_global_vars()}
        self._entries = set(graph).difference(*graph.values())

    def inline_into(self, name: str) -> None:
        """Inline all calls in one function whose callees can be inlined."""
        chosen = {callee: self._functions[callee] for callee in self._called[name] if self._can_be_inlined(callee)}
        if chosen:
            func = self._functions[name]
            self._functions[name] = rewrite_function(_Inliner(func, chosen, self._mod), func)
            self._called[name] = _called(self._functions[name])

    def result(self) -> IRModule:
        """Return the module without unneeded functions; the same if nothing changed."""
        needed = self._entries.union(*self._called.values())
        unused = [name for name in self._functions if name not in needed and self._is_marked(name)]
        changed = {name: func for name, func in self._functions.items() if func is not self._mod[name]}
        if not unused and not changed:
            return self._mod
        return self._mod.with_functions(changed).without_functions(unused)

    def _can_be_inlined(self, name: str) -> bool:
        return name in self._functions and not self._called[name] and self._is_marked(name)

    def _is_marked(self, name: str) -> bool:
        return bool(self._functions[name].attrs.get("Inline"))


class _Inliner(ExprMutator):
    """Replaces calls of the chosen functions, and references to them."""

    def __init__(self, root: Function, chosen: dict[str, Function], mod: IRModule) -> None:
        super().__init__()
        self._chosen = chosen
        self._mod = mod
        self._effects = Effects(root, mod)

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(call.op, GlobalVar) or not isinstance(new, Call):
            return new
        func = self._chosen.get(call.op.name_hint)
        if func is None or func.type_params or "Compiler" in func.attrs or len(func.params) != len(new.args):
            return new
        return self._expand(func, new.args)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        func = self._chosen.get(gvar.name_hint)
        return gvar if func is None else renewed(func)

    def _expand(self, func: Function, args: Iterable[Expr]) -> Expr:
        """Return the body of a function applied to arguments."""
        binds: dict[Var, Expr] = {}
        lets: list[tuple[Var, Expr]] = []
        for param, arg in zip(func.params, args, strict=True):
            # An argument without effects may be computed as often as the parameter is used.
            if self._effects.of(arg) is Effect.NONE:
                binds[param] = arg
            else:
                binds[param] = var = Var(param.name_hint, param.type_annotation)
                lets.append((var, arg))
        # A body that creates cells must be copied: call sites that share a node would share its cell.
        has_effects = Effects(func, self._mod).of(func.body) is not Effect.NONE
        result = copied(func.body, binds) if has_effects else renewed(func.body, binds)
        for var, arg in reversed(lets):
            result = Let(var, arg, result)
        return result
