"""LambdaLift: turn every nested function into a global one.

The counterpart of TVM's `lambda_lift.cc`.

A function without free variables is replaced by the name of its global function. For a function with free variables,
the global function takes their values and returns the function. It has the attribute `Closure`, and a call of it
replaces the nested function.

A recursive function refers to itself by that name or call, and so do the functions nested in it; TVM forgets the
nested ones. Primitive functions stay where they are.
"""

from itertools import count

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import Call, Expr, GlobalVar, Let, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import FuncType
from apass.relay.ir.variables import free_type_vars, free_vars
from apass.relay.rewrite.bind import substitute
from apass.relay.structural.equality import fingerprint, structural_equal
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["LambdaLift", "lambda_lift"]


def lambda_lift(mod: IRModule) -> IRModule:
    """Return a module without nested functions; the same module if there are none.

    Raises:
        TypeInferenceError: if a function that contains others is ill-typed.

    >>> from apass.relay.ir.expr import var
    >>> x, y = var("x", "int32"), var("y", "int32")
    >>> mod = lambda_lift(IRModule.from_expr(Function([x], Function([y], x))))
    >>> [func.attrs.get("Closure") for func in mod.functions.values()]
    [None, 1]
    """
    lifting = _LiftedFunctions(mod)
    for gvar in mod.get_global_vars():
        func = mod[gvar]
        if "Compiler" not in func.attrs and any(isinstance(node, Function) for node in post_order(func.body)):
            # The parameters for free variables need type annotations.
            lifting.lift_within(gvar, ensure_typed(func, mod))
    return lifting.result()


@provide_pass("LambdaLift")
def LambdaLift() -> ModulePass[IRModule]:
    """Turn nested functions into global ones, except in functions for other compilers."""
    return module_pass(_lift, opt_level=1, name="LambdaLift")


def _lift(mod: IRModule, ctx: PassContext) -> IRModule:
    return lambda_lift(mod)


class _LiftedFunctions:
    """The functions that were changed or added."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._functions = {gvar.name_hint: mod[gvar] for gvar in mod.get_global_vars()}
        self._changed: list[tuple[GlobalVar, Function]] = []
        self._lifted: list[tuple[GlobalVar, Function]] = []

    def lift_within(self, gvar: GlobalVar, func: Function) -> None:
        """Lift the functions nested in a global one.

        A closure keeps the function that it returns.
        """
        is_closure = func.attrs.get("Closure") and isinstance(func.body, Function)
        code = func.body if is_closure and isinstance(func.body, Function) else func
        new = _with_body(code, _Lifter(self, code.body).visit(code.body))
        if new is not code:
            self._changed.append((gvar, new if code is func else _with_body(func, new)))

    def lift(self, func: Function, self_var: Var | None) -> Expr:
        """Return the replacement of a function that contains no others.

        `self_var` is the variable that the function is bound to, through which it may call itself.
        """
        free = free_vars(func)
        recursive = self_var if self_var in free else None
        captured = [var for var in free if var is not recursive]
        base = f"lifted_name{int(fingerprint(func)[:16], 16)}"
        for number in count():
            gvar = GlobalVar(f"{base}_{number}" if number else base)
            lifted, replacement = _as_global(func, gvar, captured, recursive)
            existing = self._functions.get(gvar.name_hint)
            # Two functions may have the same fingerprint. An equal function is shared.
            if existing is not None and not structural_equal(existing, lifted):
                continue
            if existing is None:
                self._functions[gvar.name_hint] = lifted
                self._lifted.append((gvar, lifted))
            return replacement
        raise AssertionError("unreachable: `count` never ends")

    def result(self) -> IRModule:
        """Return the new module; the original one if nothing was lifted."""
        if not self._changed:
            return self._mod
        result = self._mod.copy()
        for gvar, func in (*self._changed, *self._lifted):
            result[gvar] = func
        return result


class _Lifter(ExprMutator, scopes_first=True):
    """Lifts nested functions, innermost first.

    A function thus contains no others when it is lifted.
    """

    def __init__(self, lifting: _LiftedFunctions, root: Expr) -> None:
        super().__init__()
        self._lifting = lifting
        nodes = list(post_order(root, _is_primitive))
        self._let_vars = {node.value: node.var for node in nodes if isinstance(node, Let)}
        self.memo_map.update({node: node for node in nodes if _is_primitive(node)})

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        assert isinstance(new, Function), "an ExprMutator returns a function for a function"
        return self._lifting.lift(new, self._let_vars.get(fn))


def _is_primitive(node: Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))


def _with_body(func: Function, body: Expr) -> Function:
    signature = (func.ret_type, func.type_params, func.attrs)
    return func if body is func.body else Function(func.params, body, *signature, span=func.span)


def _as_global(func: Function, gvar: GlobalVar, captured: list[Var], self_var: Var | None) -> tuple[Function, Expr]:
    """Return the global function for a nested one, and the latter's replacement."""
    type_params = free_type_vars(func)
    if not captured and not type_params:
        return _with_body(func, substitute(func.body, {} if self_var is None else {self_var: gvar})), gvar
    params = [Var(var.name_hint, var.type_annotation) for var in captured]
    binds: dict[Var, Expr] = dict(zip(captured, params, strict=True))
    if self_var is not None:
        binds[self_var] = Call(gvar, params, None, type_params)
    code = _with_body(func, substitute(func.body, binds))
    lifted = Function(params, code, _type_of(func), type_params, {"Closure": 1}, span=func.span)
    return lifted, Call(gvar, captured, None, type_params, span=func.span)


def _type_of(func: Function) -> FuncType | None:
    """Return the type of a function if it is fully annotated."""
    types = [var.type_annotation for var in func.params]
    annotated = [ty for ty in types if ty is not None]
    if func.ret_type is None or len(annotated) < len(types):
        return None
    return FuncType(annotated, func.ret_type, func.type_params)
