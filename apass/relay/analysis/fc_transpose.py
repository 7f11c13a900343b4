"""`search_fc_transpose`: dense layers whose weights are transposed first."""

from apass.relay.expr import Call, Expr, Var
from apass.relay.ir.calls import op_name
from apass.relay.ir.post_order import post_order

__all__ = ["search_fc_transpose"]


def search_fc_transpose(expr: Expr) -> list[str]:
    """Return the names of the variables that are transposed to be the weight of an `nn.dense`, each once.

    >>> from apass.relay.make import var
    >>> from apass.relay.op.shape.axes import transpose
    >>> from apass.relay.op.nn.dense.dense import dense
    >>> search_fc_transpose(dense(var("x"), transpose(var("w"), [1, 0])))
    ['w']
    """
    dense = (node for node in post_order(expr) if isinstance(node, Call) and op_name(node) == "nn.dense")
    weights = (call.args[1] for call in dense)
    turned = (one.args[0] for one in weights if isinstance(one, Call) and op_name(one) == "transpose")
    return list(dict.fromkeys(one.name_hint for one in turned if isinstance(one, Var)))
