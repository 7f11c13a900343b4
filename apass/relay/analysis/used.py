"""The element types and the operators of a program."""

from collections import Counter
from collections.abc import Iterable, Iterator

from apass.relay.ir.expr import Call, Constant, Expr, Op, Var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import Compound, TensorType, Type

__all__ = ["all_dtypes", "list_op_freqs", "list_op_types"]


def all_dtypes(expr: Expr) -> set[str]:
    """Return the element types of all tensors in an expression.

    Run InferType first. In an expression without types, only constants and annotated variables contribute.

    >>> from apass.relay.ir.expr import const
    >>> sorted(all_dtypes(const(1)))
    ['int32']
    """
    return set(_dtypes(ty for node in post_order(expr) for ty in _types_of(node)))


def list_op_types(expr: Expr) -> list[str]:
    """Return the names of the called operators, each once, in post-order of first use."""
    calls = (node.op for node in post_order(expr) if isinstance(node, Call))
    return list(dict.fromkeys(op.name for op in calls if isinstance(op, Op)))


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return the number of calls of each operator in the function `main`.

    Calls in nested functions count, for example in primitive functions. Calls in other functions of the module do not,
    as in TVM.

    Raises:
        KeyError: if the module has no `main`.

    >>> from apass.relay.op.elementwise.math import exp
    >>> list_op_freqs(IRModule.from_expr(exp(exp(Var("x")))))
    {'exp': 2}
    """
    calls = (node.op for node in post_order(mod["main"]) if isinstance(node, Call))
    return dict(Counter(op.name for op in calls if isinstance(op, Op)))


def _types_of(node: Expr) -> list[Type]:
    if isinstance(node, Constant):
        return [node.checked_type]
    annotation = node.type_annotation if isinstance(node, Var) else None
    return [ty for ty in (node.checked_type_, annotation) if ty is not None]


def _dtypes(types: Iterable[Type]) -> Iterator[str]:
    seen = set[int]()  # types share parts, so that the sum of their sizes as trees may be exponential
    for root in types:
        stack: list[object] = [root]
        while stack:
            ty = stack.pop()
            if isinstance(ty, TensorType):
                yield ty.dtype
            elif isinstance(ty, Compound) and id(ty) not in seen:
                seen.add(id(ty))
                stack += ty.parts
