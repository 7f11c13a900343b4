"""FoldConstant: replace expressions that can be computed now by constants.

The counterpart of TVM's `fold_constant.cc`.

Folding takes two visitors. `ConstantChecker` returns whether an expression is constant. `ConstantFolder`, a mutator,
checks the arguments of every call with it, and replaces calls by their results.
"""

from typing import Final

import numpy as np

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.errors import TypeInferenceError
from apass.relay.interpreter.constants import computed, marked_as, unmarked, value_of
from apass.relay.ir.calls import known_type, op_name
from apass.relay.ir.expr import Call, Constant, Expr, If, Let, Op, Tuple, TupleGetItem
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.support.reporting import count_folded, remark_on_folding
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, ExprVisitor, rewrite_function

__all__ = ["ConstantChecker", "ConstantFolder", "FoldConstant", "FoldConstantExpr", "fold_constant", "is_foldable"]

OPS_ON_SHAPES: Final = frozenset({"ndarray_size", "shape_of", "vm.shape_of"})
"""Operators that read only the shape of their argument, so that its type is enough to compute them."""


def fold_constant(expr: Expr, mod: IRModule | None = None) -> Expr:
    """Return the expression with constant parts computed; the same object if none is.

    Types are needed for the operators of `OPS_ON_SHAPES` alone. If their types are unknown, these are left as they are.

    >>> from apass.relay.ir.expr import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x = var("x", shape=(2,))
    >>> fold_constant(add(x, add(const(1), const(2)))).args
    (<relay.Var %x>, <relay.Constant int32>)
    """
    return ConstantFolder(expr, mod).visit(expr)


def FoldConstantExpr(expr: Expr, mod: IRModule) -> Expr:
    """Return `fold_constant(expr, mod)`; TVM's name for it."""
    return fold_constant(expr, mod)


@provide_pass("FoldConstant")
def FoldConstant() -> FunctionPass[IRModule, Function]:
    """Compute calls of operators on constants, and choose the branch of a constant If."""
    return function_pass(_fold, opt_level=2, name="FoldConstant")


def _fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    typed = _with_types(func, mod)
    folder = ConstantFolder(typed, mod)
    folded = rewrite_function(folder, typed)
    if ctx.wants_remarks:
        remark_on_folding(ctx, folder.memo_map)
    if ctx.wants_statistics:
        count_folded(ctx, folder.memo_map)
    return folded


def _with_types(func: Function, mod: IRModule) -> Function:
    """Return the function, typed if it needs types to fold its operators on shapes."""
    if func.checked_type_ is not None or not any(op_name(node) in OPS_ON_SHAPES for node in post_order(func)):
        return func
    try:
        return ensure_typed(func, mod)
    except TypeInferenceError:
        return func  # InferType reports errors in the program


class ConstantChecker(ExprVisitor):
    """Checks whether an expression is a `Constant`, or a `Tuple` of constant fields.

    >>> from apass.relay.ir.expr import const, var
    >>> checker = ConstantChecker()
    >>> checker.check(Tuple([const(1), Tuple([])])), checker.check(Tuple([const(1), var("x")]))
    (True, False)
    """

    def __init__(self) -> None:
        super().__init__()
        self._constants: set[Expr] = set()

    def check(self, expr: Expr) -> bool:
        """Return whether an expression is constant."""
        self.visit(expr)
        return expr in self._constants

    def visit_constant(self, const: Constant) -> None:
        """Record the constant."""
        self._constants.add(const)

    def visit_call(self, call: Call) -> None:
        """Record a call that only marks a constant to be on a device."""
        super().visit_call(call)
        if unmarked(call) in self._constants:
            self._constants.add(call)

    def visit_tuple(self, tup: Tuple) -> None:
        """Record a tuple whose fields are all constant."""
        super().visit_tuple(tup)
        if self._constants.issuperset(tup.fields):
            self._constants.add(tup)


class ConstantFolder(ExprMutator, scopes_first=True):
    """Replaces computable expressions by constants.

    The children of a node are folded before its method is called, at any depth.
    """

    def __init__(self, root: Expr, mod: IRModule | None = None) -> None:
        super().__init__()
        self._checker = ConstantChecker()
        self._effects = Effects(root, mod)

    def pre_visit_let(self, let: Let) -> None:
        """Replace a variable by its value if the folded value is a constant."""
        value = self.visit(let.value)
        if isinstance(unmarked(value), Constant):
            self.memo_map[let.var] = value

    def post_visit_let(self, let: Let) -> Expr:
        """Drop the binding of a variable whose value is a constant."""
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
        """Leave a primitive function, which is one kernel, as it is."""
        return fn if fn.attrs.get("Primitive") else super().visit_function(fn)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Return the field of a tuple expression, unless other fields write to a cell."""
        new = super().visit_tuple_getitem(op)
        whole = unmarked(new.tuple_value) if isinstance(new, TupleGetItem) else None
        if not isinstance(new, TupleGetItem) or not isinstance(whole, Tuple):
            return new
        if not 0 <= new.index < len(whole.fields):
            return new  # InferType reports errors in the program
        taken = whole.fields[new.index]
        # If the whole tuple writes nothing, no field does. Checking all fields for each one taken is quadratic.
        others = (*whole.fields[: new.index], *whole.fields[new.index + 1 :])
        if not self._may_drop(whole) and not all(map(self._may_drop, others)):
            return new
        return taken if whole is new.tuple_value else marked_as(new.tuple_value, taken)

    def visit_call(self, call: Call) -> Expr:
        """Evaluate a call of an operator if all arguments are constant."""
        new = super().visit_call(call)
        if not isinstance(new, Call) or not isinstance(new.op, Op) or not is_foldable(new.op):
            return new
        # A call without arguments, as ones(shape=(4, 5)), is smaller than the constant it would become.
        if not new.args:
            return new
        if new.op.name in OPS_ON_SHAPES:
            return self._fold_shape(call, new.op) or new
        if all(self._checker.check(arg) for arg in new.args):
            return computed(new, new.op, map(value_of, new.args)) or new
        return new

    def _fold_shape(self, call: Call, op: Op) -> Expr | None:
        """Evaluate an operator that reads only a shape, if that shape is static."""
        ty = known_type(call.args[0])
        if not isinstance(ty, TensorType) or not ty.is_static or not self._may_drop(call.args[0]):
            return None
        # A broadcast scalar has the shape without its memory.
        placeholder = np.broadcast_to(np.zeros((), ty.dtype), ty.concrete_shape)
        return computed(call, op, [placeholder])

    def _may_drop(self, expr: Expr) -> bool:
        return self._effects.of(expr) < Effect.WRITE


def is_foldable(op: Op) -> bool:
    """Return whether calls of an operator on constants may be computed early."""
    if op.compute is None or op.name == "device_copy":
        return False
    return not op.get_attr("TOpIsStateful") and not op.get_attr("TNonComputational")
