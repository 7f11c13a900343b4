"""ToANormalForm: bind every intermediate value to a variable.

The counterpart of TVM's `to_a_normal_form.cc`. An expression that is used in several scopes is bound in the innermost
scope that contains all of its uses, where the evaluator evaluates it too. TVM nests a Let in the value of a Let; this
pass writes one after the other.
"""

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.rewrite.let_binding import LetBinder, convert_bodies, convert_body
from apass.relay.transform.support.module_pass import module_pass

__all__ = ["ToANormalForm", "ToANormalFormExpr", "to_a_normal_form"]


def to_a_normal_form(expr: Expr) -> Expr:
    """Return an expression in A-normal form: operands are atoms such as variables.

    Every other expression is the value of a Let.

    For a function, the body is converted. The same object is returned if it is in that form.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x")
    >>> let = to_a_normal_form(add(add(x, x), x))
    >>> let.value.args, let.body.value.args[0] is let.var
    ((<relay.Var %x>, <relay.Var %x>), True)
    """
    return convert_body(expr, ToANormalFormExpr)


def ToANormalFormExpr(e: Expr) -> Expr:
    """Return an expression in A-normal form; a function is bound to a variable, too."""
    return LetBinder(e, has_let_scopes=False).bind(lambda _: True)


@provide_pass("ToANormalForm")
def ToANormalForm() -> ModulePass[IRModule]:
    """Bind intermediate values to variables, except in functions for other compilers."""
    return module_pass(_convert, opt_level=1, name="ToANormalForm")


def _convert(mod: IRModule, ctx: PassContext) -> IRModule:
    return convert_bodies(mod, ToANormalFormExpr)
