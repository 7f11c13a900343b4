"""FoldConstant: what can be computed now is computed now; TVM's `fold_constant.cc`.

Folding takes two walkers. A visitor, `ConstantChecker`, tells whether an expression is constant; a mutator,
`ConstantFolder`, asks it about the arguments of every call, and puts results in the places of the calls.
"""

from typing import Final

import numpy as np

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, If, Let, Op, Tuple, TupleGetItem
from apass.relay.expr_functor import ExprMutator, ExprVisitor
from apass.relay.function import Function
from apass.relay.interpreter.constants import computed, marked_as, unmarked, value_of
from apass.relay.ir.calls import known_type, op_name
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.statistics import count_folded
from apass.relay.transform.support.decorators import function_pass
from apass.relay.transform.support.reporting import remark_on_folding
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["ConstantChecker", "ConstantFolder", "FoldConstant", "FoldConstantExpr", "fold_constant"]

OPS_ON_SHAPES: Final = frozenset({"ndarray_size", "shape_of", "vm.shape_of"})
"""The operators that look at the shape of their argument alone: its type is enough to compute them."""


def fold_constant(expr: Expr, mod: IRModule | None = None) -> Expr:
    """Return an expression with all computed in it that can be; the same object if that is nothing.

    Types are needed for the operators of `OPS_ON_SHAPES` alone; where they are not known, these are left.

    >>> from apass.relay.make import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x", shape=(2,))
    >>> fold_constant(add(x, add(const(1), const(2)))).args
    (<relay.Var %x>, <relay.Constant int32>)
    """
    return ConstantFolder(expr, mod).visit(expr)


def FoldConstantExpr(expr: Expr, mod: IRModule) -> Expr:
    """Return `fold_constant(expr, mod)`, by the name that it has in TVM."""
    return fold_constant(expr, mod)


@provide_pass("FoldConstant")
def FoldConstant() -> FunctionPass[IRModule, Function]:
    """Compute every call of an operator on constants, and every If whose condition is one."""
    return function_pass(_fold, opt_level=2, name="FoldConstant")


def _fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    typed = _with_types(func, mod)
    folder = ConstantFolder(typed, mod)
    folded = rewrite_function(folder, typed)
    if ctx.hooks.remarks:
        remark_on_folding(ctx, folder.memo_map)
    if ctx.hooks.statistics:
        count_folded(ctx, folder.memo_map)
    return folded


def _with_types(func: Function, mod: IRModule) -> Function:
    """Return a function with types if it has operators that are folded by them, and none yet."""
    if func.checked_type_ is not None or not any(op_name(node) in OPS_ON_SHAPES for node in post_order(func)):
        return func
    try:
        return ensure_typed(func, mod)
    except TypeInferenceError:
        return func  # an error in the program is for InferType to tell


class ConstantChecker(ExprVisitor):
    """Tells whether an expression is constant: a `Constant`, or a `Tuple` with only constant fields.

    >>> from apass.relay.make import const, var
    >>> checker = ConstantChecker()
    >>> checker.check(Tuple([const(1), Tuple([])])), checker.check(Tuple([const(1), var("x")]))
    (True, False)
    """

    def __init__(self) -> None:
        super().__init__()
        self._constants: set[Expr] = set()

    def check(self, expr: Expr) -> bool:
        """Tell whether an expression is constant."""
        self.visit(expr)
        return expr in self._constants

    def visit_constant(self, const: Constant) -> None:
        """Note that it is one."""
        self._constants.add(const)

    def visit_call(self, call: Call) -> None:
        """Note a constant that is only marked to be on a device."""
        super().visit_call(call)
        if unmarked(call) in self._constants:
            self._constants.add(call)

    def visit_tuple(self, tup: Tuple) -> None:
        """Note that it is one if its fields are."""
        super().visit_tuple(tup)
        if self._constants.issuperset(tup.fields):
            self._constants.add(tup)


class ConstantFolder(ExprMutator, scopes_first=True):
    """Puts constants in the places of what can be computed.

    What is below a node has been folded before its method is called, to any depth.
    """

    def __init__(self, root: Expr, mod: IRModule | None = None) -> None:
        super().__init__()
        self._checker = ConstantChecker()
        self._effects = Effects(root, mod)

    def pre_visit_let(self, let: Let) -> None:
        """If the value is a constant by now, let it stand wherever the variable does."""
        value = self.visit(let.value)
        if isinstance(unmarked(value), Constant):
            self.memo_map[let.var] = value

    def post_visit_let(self, let: Let) -> Expr:
        """Drop the binding of a constant."""
        if isinstance(unmarked(self.visit(let.value)), Constant):
            return self.visit(let.body)
        return super().post_visit_let(let)

    def visit_if(self, ite: If) -> Expr:
        """Choose the branch if the condition is a constant."""
        cond = unmarked(self.visit(ite.cond))
        if not isinstance(cond, Constant) or cond.data.size != 1:
            return super().visit_if(ite)
        return self.visit(ite.true_branch if cond.data.item() else ite.false_branch)

    def visit_function(self, fn: Function) -> Expr:
        """Leave a function alone that is one kernel already."""
        return fn if fn.attrs.get("Primitive") else super().visit_function(fn)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Take the field of a tuple that is made in place, if the other fields write nothing."""
        new = super().visit_tuple_getitem(op)
        whole = unmarked(new.tuple_value) if isinstance(new, TupleGetItem) else None
        if not isinstance(new, TupleGetItem) or not isinstance(whole, Tuple):
            return new
        if not 0 <= new.index < len(whole.fields):
            return new  # an error in the program is for InferType to tell
        taken = whole.fields[new.index]
        # If the tuple writes nothing, none of its fields does; to go over them for each that is taken takes too long.
        if not self._may_drop(whole) and not all(map(self._may_drop, _others(whole.fields, new.index))):
            return new
        return taken if whole is new.tuple_value else marked_as(new.tuple_value, taken)

    def visit_call(self, call: Call) -> Expr:
        """Evaluate a call of an operator if all arguments are constant."""
        new = super().visit_call(call)
        if not isinstance(new, Call) or not isinstance(new.op, Op) or not _is_foldable(new.op):
            return new
        # To fold ones(shape=(4, 5)) would only make the program larger.
        if not new.args:
            return new
        if new.op.name in OPS_ON_SHAPES:
            return self._fold_shape(call, new.op) or new
        if all(self._checker.check(one) for one in new.args):
            return computed(new, new.op, map(value_of, new.args)) or new
        return new

    def _fold_shape(self, call: Call, op: Op) -> Expr | None:
        """Evaluate an operator that looks at the shape alone, if the type of its argument tells it."""
        ty = known_type(call.args[0])
        if not isinstance(ty, TensorType) or not ty.is_static or not self._may_drop(call.args[0]):
            return None
        any_of_that_shape = np.broadcast_to(np.zeros((), ty.dtype), ty.concrete_shape)
        return computed(call, op, [any_of_that_shape])

    def _may_drop(self, expr: Expr) -> bool:
        return self._effects.of(expr) < Effect.WRITE


def _others(fields: tuple[Expr, ...], index: int) -> tuple[Expr, ...]:
    return fields[:index] + fields[index + 1 :]


def _is_foldable(op: Op) -> bool:
    if op.compute is None or op.name == "device_copy":
        return False
    return not op.get_attr("TOpIsStateful") and not op.get_attr("TNonComputational")
