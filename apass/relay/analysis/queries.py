"""Small queries: constants, transposed weights, normal form."""

from collections.abc import Callable

from apass.relay.errors import NormalFormError
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Constant, Expr, Op, Tuple, Var
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import bound_vars
from apass.relay.rewrite.let_binding import LetBinder

__all__ = [
    "check_basic_block_normal_form",
    "check_constant",
    "post_order_visit",
    "search_fc_transpose",
    "transposed_weight",
]


def search_fc_transpose(expr: Expr) -> list[str]:
    """Return the names of variables transposed to become the weight of an `nn.dense`.

    Each name is listed once.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.shape.axes import transpose
    >>> from apass.relay.op.nn.dense.dense import dense
    >>> search_fc_transpose(dense(var("x"), transpose(var("w"), [1, 0])))
    ['w']
    """
    weights = (transposed_weight(node) for node in post_order(expr))
    return list(dict.fromkeys(weight.name_hint for weight in weights if weight is not None))


def transposed_weight(expr: Expr) -> Var | None:
    """Return the variable whose transpose is the weight of an `nn.dense`.

    Return None for any other expression.
    """
    weight = expr.args[1] if isinstance(expr, Call) and op_name(expr) == "nn.dense" else None
    if not isinstance(weight, Call) or op_name(weight) != "transpose" or not isinstance(weight.args[0], Var):
        return None
    axes = None if weight.attrs is None else weight.attrs["axes"]
    return weight.args[0] if axes in {None, (1, 0), (-1, 0), (1, -2), (-1, -2)} else None


def check_basic_block_normal_form(expr: Expr) -> bool:
    """Return True for an expression in basic block normal form.

    In that form, a value that several blocks use is bound to a variable around them. As in TVM, this includes
    constants, global variables, constructors and free variables, but no operators. A value whose first use is in the
    block around all of them needs no variable.

    Raises:
        NormalFormError: if the expression is not in that form.

    >>> from apass.relay.ir.expr import If, var
    >>> from apass.relay.op.elementwise.math import exp
    >>> c, x = var("c"), var("x")
    >>> check_basic_block_normal_form(If(c, exp(x), c))
    True
    """
    bound = bound_vars(expr)
    binder = LetBinder(expr, has_let_scopes=True, atoms=frozenset({Op}), is_opaque=lambda _: False)
    lifted = binder.lifted().difference(bound)
    if lifted:
        first = next(node for node in post_order(expr) if node in lifted)
        raise NormalFormError(
            f"several blocks use {first!r}; bind it to a variable around them, as ToBasicBlockNormalForm does for "
            "expressions other than variables"
        )
    return True


def check_constant(expr: Expr) -> bool:
    """Return whether an expression is a constant or a tuple of such expressions.

    >>> from apass.relay.ir.expr import const, var
    >>> check_constant(Tuple([const(1), Tuple([])])), check_constant(Tuple([const(1), var("x")]))
    (True, False)
    """
    constants: set[Expr] = set()
    for node in post_order(expr):
        if isinstance(node, Constant) or (isinstance(node, Tuple) and constants.issuperset(node.fields)):
            constants.add(node)
    return expr in constants


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], object]) -> None:
    """Call `fvisit` once for each node, in post-order; its return values are ignored.

    >>> from apass.relay.expr import Call, GlobalVar, Var
    >>> x, seen = Var("x"), []
    >>> post_order_visit(Call(GlobalVar("f"), [x, x]), seen.append)
    >>> seen
    [<relay.GlobalVar @f>, <relay.Var %x>, <relay.Call of <relay.GlobalVar @f>>]
    """
    for node in post_order(expr):
        fvisit(node)
