"""Parts that first-order and higher-order differentiation share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from apass.relay.errors import OpNotImplementedError
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Expr, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.scope_builder import ScopeBuilder
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.relay.op.define.registry import FPrimalGradient
from apass.relay.visitors.expr_functor import ExprMutator
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = [
    "Leaf",
    "argument_gradients",
    "check_gradients",
    "check_signature",
    "gradient_type",
    "over_tensors",
    "tensors_within",
]

Leaf: TypeAlias = Callable[..., Expr]
"""`leaf(ty, *exprs)` returns an expression for tensors of type `ty`."""


def gradient_type(func: Function) -> TupleType | None:
    """Return the result type of the gradient of a function: the result and gradients.

    Return None if the function is not fully annotated.
    """
    types = [param.type_annotation for param in func.params]
    annotated = [ty for ty in types if ty is not None]
    if func.ret_type is None or len(annotated) < len(types):
        return None
    return TupleType([func.ret_type, TupleType(annotated)])


def check_signature(func: Function) -> None:
    """Check that a typed function has no type parameters, and tensors or tuples.

    Raises:
        ValueError: if the function is polymorphic.

    """
    if func.type_params:
        names = ", ".join(param.name_hint for param in func.type_params)
        raise ValueError(f"the gradient of a polymorphic function is not supported, got the type parameters {names}")


def check_gradients(exprs: Iterable[Expr]) -> None:
    """Check that all operators in expressions have a gradient.

    Raises:
        OpNotImplementedError: if some do not. The message names all of them.

    """
    names = {node.name for expr in exprs for node in post_order(expr) if isinstance(node, Op)}
    missing = sorted(name for name in names if not Op.get(name).has_attr("FPrimalGradient"))
    if missing:
        subject = "operator" if len(missing) == 1 else "operators"
        verb = "does" if len(missing) == 1 else "do"
        raise OpNotImplementedError(
            f"the {subject} {', '.join(missing)} {verb} not have a registered gradient; "
            "register one with relay.op.register_gradient"
        )


def argument_gradients(orig: Call, result: Expr, grad: Expr) -> Sequence[Expr]:
    """Return the gradients of the arguments of a typed call of an operator.

    `result` is the variable that holds the value of the call. It replaces the call in the gradients.

    Raises:
        ValueError: if the registered gradient returns a wrong number of expressions.
        TypeError: if it returns something else.

    """
    assert isinstance(orig.op, Op), "the call is one of an operator"
    rule = cast("FPrimalGradient", orig.op.get_attr("FPrimalGradient"))
    gradients = list(rule(orig, grad))
    name = op_name(orig)
    if len(gradients) != len(orig.args):
        raise ValueError(
            f"the gradient of {name} must return an expression for each of {len(orig.args)} arguments, "
            f"got {len(gradients)}"
        )
    for gradient in gradients:
        if not isinstance(gradient, Expr):
            raise TypeError(f"the gradient of {name} must return expressions, got {gradient!r}")
    mutator = ExprMutator()
    mutator.memo_map[orig] = result
    return [mutator.visit(gradient) for gradient in gradients]


def over_tensors(
    ty: Type, exprs: Sequence[Expr], leaf: Leaf, scope: ScopeBuilder | None = None, *, keeps_type: bool = True
) -> Expr:
    """Return `leaf` applied to the tensors of values, which are tensors or tuples.

    All values have the same nesting of tuples, which is that of `ty`. The result has it, too. With a scope, fields and
    tuples are bound to variables. If `keeps_type` is true, the result has the type `ty`.

    Raises:
        ValueError: if a value is neither a tensor nor a tuple.

    """
    return walk_deep(_over_tensors(ty, exprs, leaf, scope, keeps_type))


def _over_tensors(
    ty: Type, exprs: Sequence[Expr], leaf: Leaf, scope: ScopeBuilder | None, keeps_type: bool
) -> Walk[Expr]:
    if isinstance(ty, TensorType):
        return leaf(ty, *exprs)
    fields: list[Expr] = []
    for index, field in enumerate(_fields(ty)):
        parts = _parts(exprs, index, scope)
        fields.append((yield _over_tensors(field, parts, leaf, scope, keeps_type)))
    result = Tuple(fields)
    return result if scope is None else scope.let(Var("x", ty if keeps_type else None), result)


def tensors_within(ty: Type, exprs: Sequence[Expr], scope: ScopeBuilder) -> Iterator[Sequence[Expr]]:
    """Iterate over the tensors of values, from the first to the last.

    The values are as for `over_tensors`. Each item has the same tensor of all of them.

    Raises:
        ValueError: if a value is neither a tensor nor a tuple.

    """
    stack = [(ty, exprs)]
    while stack:
        ty, exprs = stack.pop()
        if isinstance(ty, TensorType):
            yield exprs
        else:
            fields = [(field, _parts(exprs, index, scope)) for index, field in enumerate(_fields(ty))]
            stack += reversed(fields)


def _fields(ty: Type) -> Sequence[Type]:
    if not isinstance(ty, TupleType):
        raise ValueError(f"gradients exist only for tensors and tuples of tensors, got a value of type {ty}")
    return ty.fields


def _parts(exprs: Sequence[Expr], index: int, scope: ScopeBuilder | None) -> Sequence[Expr]:
    parts = [TupleGetItem(expr, index) for expr in exprs]
    return parts if scope is None else [scope.let("x", part) for part in parts]
