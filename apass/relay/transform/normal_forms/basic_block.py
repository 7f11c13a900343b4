"""ToBasicBlockNormalForm: bind values that several blocks use to variables.

The counterpart of TVM's `to_basic_block_normal_form.cc`. A block is what is evaluated together: the body of a function
or of a Let, a branch, or a clause. A value used in several blocks is bound in the innermost block around them. As in
TVM, a value whose first use is in that block needs no variable.
"""

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.rewrite.let_binding import LetBinder, convert_bodies, convert_body
from apass.relay.transform.support.module_pass import module_pass

__all__ = ["ToBasicBlockNormalForm", "to_basic_block_normal_form"]


def to_basic_block_normal_form(expr: Expr) -> Expr:
    """Return an expression in basic block normal form.

    For a function, the body is converted. The same object is returned if it is in that form.

    >>> from apass.relay.expr import If
    >>> from apass.relay.ir.expr import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x")
    >>> shared = add(x, x)
    >>> to_basic_block_normal_form(If(const(True), shared, add(shared, x))).value is shared
    True
    """
    return convert_body(expr, _converted)


@provide_pass("ToBasicBlockNormalForm")
def ToBasicBlockNormalForm() -> ModulePass[IRModule]:
    """Bind values used in several blocks, except in functions for other compilers."""
    return module_pass(_convert, opt_level=1, name="ToBasicBlockNormalForm")


def _convert(mod: IRModule, ctx: PassContext) -> IRModule:
    return convert_bodies(mod, _converted)


def _converted(expr: Expr) -> Expr:
    binder = LetBinder(expr, has_let_scopes=True)
    lifted = binder.lifted()
    effects = Effects(expr)
    if any(effects.of(expr) is not Effect.NONE for expr in lifted):
        # A binding around a Let would be evaluated before the value of the Let, which effects make visible.
        binder = LetBinder(expr, has_let_scopes=False)
        lifted = binder.lifted()
    return binder.bind(lifted.__contains__)
