"""`count_layers`: how deep a network is."""

from collections.abc import Collection

from apass.relay.expr import Expr
from apass.relay.ir.calls import op_name
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["count_layers"]


def count_layers(expr: Expr | IRModule, valid_ops: Collection[str]) -> int:
    """Return the largest number of calls of the named operators, one behind the other, in an expression or in `main`.

    >>> from apass.relay.make import var
    >>> from apass.relay.op.elementwise.math import exp
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x")
    >>> count_layers(add(exp(exp(x)), exp(x)), ["exp"])
    2
    """
    root: Expr = expr["main"] if isinstance(expr, IRModule) else expr
    depths: dict[Expr, int] = {}
    for node in post_order(root):
        below = max((depths[one] for one in node.children), default=0)
        depths[node] = below + (op_name(node) in valid_ops)
    return depths[root]
