"""`count_layers`: the depth of a network."""

from collections.abc import Collection

from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["count_layers"]


def count_layers(expr: Expr | IRModule, valid_ops: Collection[str]) -> int:
    """Return the largest number of calls of `valid_ops` on one path of an expression.

    For a module, the expression is its function `main`.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.elementwise.math import exp
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x")
    >>> count_layers(add(exp(exp(x)), exp(x)), ["exp"])
    2
    """
    root: Expr = expr["main"] if isinstance(expr, IRModule) else expr
    depths: dict[Expr, int] = {}
    for node in post_order(root):
        below = max((depths[child] for child in node.children), default=0)
        depths[node] = below + (op_name(node) in valid_ops)
    return depths[root]
