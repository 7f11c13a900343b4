"""`post_order_visit`: a function called with every node of an expression."""

from collections.abc import Callable

from apass.relay.expr import Expr
from apass.relay.ir.post_order import post_order

__all__ = ["post_order_visit"]


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], object]) -> None:
    """Call `fvisit` with each node once, what is below a node before the node; what it returns is not looked at.

    >>> from apass.relay.expr import Call, GlobalVar, Var
    >>> x, seen = Var("x"), []
    >>> post_order_visit(Call(GlobalVar("f"), [x, x]), seen.append)
    >>> seen
    [<relay.GlobalVar @f>, <relay.Var %x>, <relay.Call of <relay.GlobalVar @f>>]
    """
    for node in post_order(expr):
        fvisit(node)
