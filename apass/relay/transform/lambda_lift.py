"""LambdaLift: every function within another becomes a global one; TVM's `lambda_lift.cc`.

A function that uses no variable around it is replaced by the name of the global one. Of one that does, the global
function takes the values of these variables and returns the function; it has the attribute `Closure`, and where the
function stood is a call of it. A recursive function refers to itself by that name, or call, and gives that to the
functions within it; TVM forgets this. Primitive functions stay where they are.
"""

from itertools import count

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Expr, GlobalVar, Let, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import free_type_vars, free_vars
from apass.relay.rewrite.bind import substitute
from apass.relay.structural.equality import fingerprint, structural_equal
from apass.relay.transform.support.decorators import module_pass
from apass.relay.ty import FuncType
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["LambdaLift", "lambda_lift"]


def lambda_lift(mod: IRModule) -> IRModule:
    """Return a module in which no function is within another; the same module if that is so already.

    Raises:
        TypeInferenceError: if a function with others in it has no type.

    >>> from apass.relay.make import var
    >>> x, y = var("x", "int32"), var("y", "int32")
    >>> mod = lambda_lift(IRModule.from_expr(Function([x], Function([y], x))))
    >>> [func.attrs.get("Closure") for func in mod.functions.values()]
    [None, 1]
    """
    lifting = _Lifting(mod)
    for gvar in mod.get_global_vars():
        func = mod[gvar]
        if "Compiler" not in func.attrs and _has_inner(func):
            # What a global function takes of the variables around it must have a type.
            lifting.lift_within(gvar, ensure_typed(func, mod))
    return lifting.result()


@provide_pass("LambdaLift")
def LambdaLift() -> ModulePass[IRModule]:
    """Make global functions of all functions within others; but not in functions for other compilers."""
    return module_pass(_lift, opt_level=1, name="LambdaLift")


def _lift(mod: IRModule, ctx: PassContext) -> IRModule:
    return lambda_lift(mod)


def _has_inner(func: Function) -> bool:
    return any(isinstance(node, Function) for node in post_order(func.body))


class _Lifting:
    """The functions that were changed or added."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._known = {gvar.name_hint: mod[gvar] for gvar in mod.get_global_vars()}
        self._changed: list[tuple[GlobalVar, Function]] = []
        self._lifted: list[tuple[GlobalVar, Function]] = []

    def lift_within(self, gvar: GlobalVar, func: Function) -> None:
        """Lift all that is within a global function; the code of a closure stays in the function that makes it."""
        is_closure = func.attrs.get("Closure") and isinstance(func.body, Function)
        code = func.body if is_closure and isinstance(func.body, Function) else func
        new = _with_body(code, _Lifter(self, code.body).visit(code.body))
        if new is not code:
            self._changed.append((gvar, new if code is func else _with_body(func, new)))

    def lift(self, func: Function, own: Var | None) -> Expr:
        """Return what stands for a function without others in it; by `own`, a variable, it may call itself."""
        free = free_vars(func)
        recursive = own if own in free else None
        captured = [var for var in free if var is not recursive]
        base = f"lifted_name{int(fingerprint(func)[:16], 16)}"
        for number in count():
            gvar = GlobalVar(f"{base}_{number}" if number else base)
            lifted, stand_in = _as_global(func, gvar, captured, recursive)
            known = self._known.get(gvar.name_hint)
            if known is not None and not structural_equal(known, lifted):
                continue
            if known is None:
                self._known[gvar.name_hint] = lifted
                self._lifted.append((gvar, lifted))
            return stand_in
        raise AssertionError("there is always another name")

    def result(self) -> IRModule:
        """Return the module; the one that was given if nothing was lifted."""
        if not self._changed:
            return self._mod
        made = self._mod.copy()
        for gvar, func in (*self._changed, *self._lifted):
            made[gvar] = func
        return made


class _Lifter(ExprMutator, scopes_first=True):
    """Lifts the innermost functions first: what is left of each when its turn comes is its own code alone."""

    def __init__(self, lifting: _Lifting, root: Expr) -> None:
        super().__init__()
        self._lifting = lifting
        nodes = list(post_order(root, _is_primitive))
        self._own = {node.value: node.var for node in nodes if isinstance(node, Let)}
        self.memo_map.update({node: node for node in nodes if _is_primitive(node)})

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        assert isinstance(new, Function), "an ExprMutator leaves a function one"
        return self._lifting.lift(new, self._own.get(fn))


def _is_primitive(node: Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))


def _with_body(func: Function, body: Expr) -> Function:
    kept = (func.ret_type, func.type_params, func.attrs)
    return func if body is func.body else Function(func.params, body, *kept, span=func.span)


def _as_global(func: Function, gvar: GlobalVar, captured: list[Var], own: Var | None) -> tuple[Function, Expr]:
    """Return the global function for one that is within another, and what stands in its place."""
    type_params = free_type_vars(func)
    if not captured and not type_params:
        return _with_body(func, substitute(func.body, {} if own is None else {own: gvar})), gvar
    params = [Var(var.name_hint, var.type_annotation) for var in captured]
    binds: dict[Var, Expr] = dict(zip(captured, params, strict=True))
    if own is not None:
        binds[own] = Call(gvar, params, None, type_params)
    code = _with_body(func, substitute(func.body, binds))
    lifted = Function(params, code, _type_of(func), type_params, {"Closure": 1}, span=func.span)
    return lifted, Call(gvar, captured, None, type_params, span=func.span)


def _type_of(func: Function) -> FuncType | None:
    """Return the type of a function if all of it is annotated."""
    types = [var.type_annotation for var in func.params]
    known = [one for one in types if one is not None]
    if func.ret_type is None or len(known) < len(types):
        return None
    return FuncType(known, func.ret_type, func.type_params)
