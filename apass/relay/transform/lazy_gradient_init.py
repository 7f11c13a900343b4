"""LazyGradientInit: create tensors of zeros and ones only when they are used.

The counterpart of TVM's `lazy_gradient_init.cc`, for use after the gradient.

Tensors within a function become values of the data type `GradCell` of `gradient.rly`. A tensor that `zeros`, `ones`,
`zeros_like` or `ones_like` returns becomes a function that computes it. `add` and `multiply` of two tensors of one
type are replaced by functions that skip such operands. Parameters and results keep their types.

A sum with zeros and a product with ones are thus the other operand. A product with zeros is zeros, even if the other
operand is infinite or NaN.

The pass differs from TVM in these cases, where TVM's result is wrong or ill-typed:

- `zeros_like` makes zeros. In TVM 0.8, a product with its result is the other operand.
- Arguments and results of other operators and of global functions, and conditions, are converted at any type.
- The argument of `zeros_like` or `ones_like` is computed where it was, so that its effects stay.
- A function stays if it is generic, fused, for another compiler, uses data types, or passes functions to others.
"""

from collections.abc import Callable
from typing import Final

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.calls import known_type, op_name
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType, TupleType, Type, TypeCall
from apass.relay.std import import_std
from apass.relay.transform.function_pass import typed_if_possible
from apass.relay.transform.support.lets import Lets
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.visitors.expr_functor import ExprMutator
from apass.relay.visitors.recursion import Walk, walk_deep
from apass.relay.visitors.type_functor import TypeMutator, Visited

__all__ = ["LazyGradientInit", "lazy_gradient_init"]

_MAKERS: Final = {"zeros": "Zero", "zeros_like": "Zero", "ones": "One", "ones_like": "One"}
_OVERLOADED: Final = {"add": "AddGradCell", "multiply": "MultiplyGradCell"}
_KEPT: Final = ("Primitive", "Composite", "Compiler")


def lazy_gradient_init(mod: IRModule) -> IRModule:
    """Return a module whose functions create zeros and ones only when they are used.

    If no function can be converted, the same module is returned.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.elementwise.convert import zeros_like
    >>> x = var("x", shape=(2,))
    >>> lazy_gradient_init(IRModule.from_expr(Function([x], zeros_like(x))))
    <relay.IRModule of @main, @FromGradCell, @MultiplyGradCell, @AddGradCell>
    """
    typed = {gvar.name_hint: typed_if_possible(mod[gvar], mod) for gvar in mod.get_global_vars()}
    supported = {name: func for name, func in typed.items() if _is_supported(func)}
    if not supported:
        return mod
    result = mod.copy()
    import_std(result, "gradient.rly")
    cells = _Cells(result)
    return result.with_functions({name: _converted(func, cells) for name, func in supported.items()})


@provide_pass("LazyGradientInit")
def LazyGradientInit() -> ModulePass[IRModule]:
    """Create tensors of zeros and ones only when they are used."""
    return module_pass(_convert, opt_level=2, name="LazyGradientInit")


def _convert(mod: IRModule, ctx: PassContext) -> IRModule:
    return lazy_gradient_init(mod)


def _is_supported(func: Function) -> bool:
    """Return whether a function can be converted: it is typed and of first order."""
    signature = [*(param.type_annotation for param in func.params), func.ret_type]
    if func.checked_type_ is None or not all(map(_is_data, signature)):
        return False
    return all(map(_is_supported_node, post_order(func)))


def _is_supported_node(node: Expr) -> bool:
    if isinstance(node, Function):
        return not node.type_params and not any(node.attrs.get(name) for name in _KEPT) and _has_no_names(node.children)
    if isinstance(node, Match | Constructor):
        return False
    if not isinstance(node, Call):
        return _has_no_names(node.children)
    if isinstance(node.op, Op | GlobalVar) and not all(map(_is_data, map(known_type, (node, *node.args)))):
        return False
    return _has_no_names(node.args)


def _has_no_names(children: tuple[Expr, ...]) -> bool:
    """Return whether no operator or global function is used as a value."""
    return not any(isinstance(child, Op | GlobalVar) for child in children)


def _is_data(ty: Type | None) -> bool:
    """Return whether a type is made of tensors and tuples alone."""
    stack = [ty]
    while stack:
        part = stack.pop()
        if isinstance(part, TupleType):
            stack += part.fields
        elif not isinstance(part, TensorType):
            return False
    return True


class _Cells:
    """The definitions of `gradient.rly` in a module."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self.types = _CellTypes(mod)

    def function(self, name: str) -> GlobalVar:
        return self._mod.get_global_var(name)

    def made(self, name: str, arg: Expr, ty: Type) -> Expr:
        """Return a call of a constructor of `GradCell`."""
        return Call(self._mod.get_constructor("GradCell", name), [arg], None, [ty])

    def wrapped(self, expr: Expr, ty: Type) -> Expr:
        """Return a value with its tensors in cells."""
        return _mapped(expr, ty, lambda tensor, ty: self.made("Raw", tensor, ty))

    def unwrapped(self, expr: Expr, ty: Type) -> Expr:
        """Return a value with its cells replaced by their tensors."""
        return _mapped(expr, ty, lambda cell, ty: Call(self.function("FromGradCell"), [cell], None, [ty]))


class _CellTypes(TypeMutator):
    """Replaces types of tensors by types of cells."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self._cell = mod.get_global_type_var("GradCell")

    def visit_tensor_type(self, tt: TensorType) -> Visited:
        return TypeCall(self._cell, [tt])

    def of(self, ty: Type) -> Type:
        new = self.visit(ty)
        assert isinstance(new, Type), "a TypeMutator returns a type for a type"
        return new


def _mapped(expr: Expr, ty: Type, leaf: Callable[[Expr, Type], Expr]) -> Expr:
    """Return a value with each tensor or cell in it replaced."""
    if isinstance(ty, TensorType):
        return leaf(expr, ty)
    lets = Lets()
    return lets.close(walk_deep(_map_fields(expr, ty, leaf, lets)))


def _map_fields(expr: Expr, ty: Type, leaf: Callable[[Expr, Type], Expr], lets: Lets) -> Walk[Expr]:
    if not isinstance(ty, TupleType):
        return leaf(expr, ty)
    if isinstance(expr, Tuple):
        parts = list(expr.fields)
    else:
        whole = expr if isinstance(expr, Var) else lets.push(expr)
        parts = [TupleGetItem(whole, index) for index in range(len(ty.fields))]
    fields: list[Expr] = []
    for part, field_type in zip(parts, ty.fields, strict=True):
        field = yield _map_fields(part, field_type, leaf, lets)
        fields.append(field)
    return Tuple(fields)


def _converted(func: Function, cells: _Cells) -> Function:
    """Return a function that calls the converted one with converted arguments."""
    code = _CellMutator(cells).visit(func)
    args = [cells.wrapped(param, param.checked_type) for param in func.params]
    result = Var("x")
    assert func.ret_type is not None, "a typed function has a result type"
    body = Let(result, Call(code, args), cells.unwrapped(result, func.ret_type))
    return Function(func.params, body, func.ret_type, func.type_params, func.attrs, span=func.span)


class _CellMutator(ExprMutator, scopes_first=True):
    """Replaces tensors by cells."""

    def __init__(self, cells: _Cells) -> None:
        super().__init__()
        self._cells = cells

    def visit_var(self, var: Var) -> Expr:
        return Var(var.name_hint, self._cells.types.of(var.checked_type), span=var.span)

    def visit_constant(self, const: Constant) -> Expr:
        return self._cells.made("Raw", const, const.checked_type)

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        assert isinstance(new, Function), "an ExprMutator returns a function for a function"
        ret_type = None if fn.ret_type is None else self._cells.types.of(fn.ret_type)
        return Function(new.params, new.body, ret_type, (), None, span=fn.span)

    def visit_if(self, ite: If) -> Expr:
        cond = self._cells.unwrapped(self.visit(ite.cond), ite.cond.checked_type)
        return If(cond, self.visit(ite.true_branch), self.visit(ite.false_branch), span=ite.span)

    def visit_call(self, call: Call) -> Expr:
        if not isinstance(call.op, Op | GlobalVar):
            return super().visit_call(call)
        args = [(self.visit(arg), arg.checked_type) for arg in call.args]
        ty, name = call.checked_type, op_name(call)
        if name in _OVERLOADED and all(arg_type == ty for _, arg_type in args):
            params = [Var("lhs", ty), Var("rhs", ty)]
            compute = Function(params, Call(call.op, params), ty)
            cells = [arg for arg, _ in args]
            return Call(self._cells.function(_OVERLOADED[name]), [compute, *cells], None, [ty], span=call.span)
        if name not in _MAKERS:
            tensors = [self._cells.unwrapped(arg, arg_type) for arg, arg_type in args]
            return self._cells.wrapped(Call(call.op, tensors, call.attrs, span=call.span), ty)
        lets = Lets()
        atoms = [(arg if isinstance(arg, Var) else lets.push(arg), arg_type) for arg, arg_type in args]
        tensors = [self._cells.unwrapped(arg, arg_type) for arg, arg_type in atoms]
        make = Function([], Call(call.op, tensors, call.attrs, span=call.span), ty)
        return lets.close(self._cells.made(_MAKERS[name], make, ty))
