"""PartialEvaluate: compute the static parts of a program.

The counterpart of TVM's `partial_eval.cc`.

The pass evaluates every function with unknown arguments. Operators on known values are computed, known branches are
chosen, calls of known functions are replaced by their results, and cells with known contents are not read. The rest is
residual code in A-normal form, with effects in their original order. Much of it is dead: run DeadCodeElimination next.

As in TVM, a recursive call is unfolded only if it has less fuel than the calls around it: an older argument, or a
smaller positive integer. This ends, but may take exponential time. Unlike in TVM, the config option
`relay.PartialEvaluate.max_unfolded` also limits the amount of code that unfolded calls copy. Other calls stay.

The pass also differs from TVM in these cases, to preserve the meaning of programs:

- A program with shared expressions is first converted to A-normal form. TVM rejects it.
- After a recursive call that stays, the contents of cells are unknown.
- The code of a function that is created within a call of itself is not replaced by a call of itself.
- Functions for other compilers and composite functions are not unfolded.
- Calls of operators without arguments stay.
- A match in which no clause fits fails when the program runs, not in the pass.
"""

from typing import Final

from apass.core.config import provide_config_option
from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.analysis.feature import has_shared_nodes
from apass.relay.ir.expr import Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.rewrite.renaming import with_unique_binders
from apass.relay.transform.function_pass import typed_if_possible
from apass.relay.transform.normal_forms.anf import to_a_normal_form
from apass.relay.transform.partial_eval.evaluator import PartialEvaluator, is_opaque
from apass.relay.transform.support.module_pass import module_pass

__all__ = ["MAX_UNFOLDED", "PartialEvaluate", "partial_evaluate"]

MAX_UNFOLDED: Final = 50_000
"""The most expressions that unfolded calls copy, unless the context sets another limit."""

_MAX_UNFOLDED: Final = provide_config_option(
    "relay.PartialEvaluate.max_unfolded",
    int,
    MAX_UNFOLDED,
    "The most expressions that PartialEvaluate copies from called functions.",
)


def partial_evaluate(mod: IRModule, max_unfolded: int = MAX_UNFOLDED) -> IRModule:
    """Return a module with the static parts of its functions computed.

    Parameters:
        mod: the module.
        max_unfolded: the most expressions that unfolded calls copy from their functions, in all.

    >>> from apass.relay.ir.expr import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x", "int32")
    >>> mod = partial_evaluate(IRModule.from_expr(Function([x], add(add(const(1), const(2)), x))))
    >>> print(mod["main"])
    fn (%x: int32) -> int32 {
      let %x1 = 1;
      let %x2 = 2;
      let %x3 = 3;
      let %x4 = add(%x3, %x);
      %x4
    }
    """
    functions = {gvar.name_hint: _prepared(mod[gvar], mod) for gvar in mod.get_global_vars()}
    evaluator = PartialEvaluator(functions, max_unfolded)
    updates: dict[str, Expr] = {
        name: evaluator.residual(name) for name, func in functions.items() if not is_opaque(func)
    }
    return mod.with_functions(updates) if updates else mod


@provide_pass("PartialEvaluate")
def PartialEvaluate() -> ModulePass[IRModule]:
    """Compute the static parts of functions, and unfold calls of known functions."""
    return module_pass(_evaluate, opt_level=1, name="PartialEval")


def _evaluate(mod: IRModule, ctx: PassContext) -> IRModule:
    return partial_evaluate(mod, ctx.config[_MAX_UNFOLDED])


def _prepared(func: Function, mod: IRModule) -> Function:
    """Return a function without shared expressions, whose calls have type arguments."""
    if is_opaque(func):
        return func
    prepared = with_unique_binders(typed_if_possible(func, mod))
    if has_shared_nodes(prepared):
        prepared = to_a_normal_form(prepared)
    assert isinstance(prepared, Function), "these rewrites preserve the class of an expression"
    return prepared
