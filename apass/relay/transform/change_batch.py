"""ChangeBatch: change the batch size of a model; TVM's pass of that name."""

from collections.abc import Mapping

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.relay.ir.expr import Expr, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import Dim, TensorType
from apass.relay.transform.function_pass import function_pass
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["ChangeBatch", "change_batch"]


def change_batch(func: Function, data: Mapping[Var, int], batch_size: int = 16) -> Function:
    """Return a function whose parameters have another batch size.

    The types of other variables, and of results, are removed, so that InferType finds the new ones.

    Parameters:
        func: the function.
        data: the parameters to change, each with the axis of the batch.
        batch_size: the new batch size.

    Raises:
        ValueError: if a parameter is not a tensor, or lacks the axis.

    >>> from apass.relay.ir.expr import var
    >>> x = var("x", shape=(1, 3))
    >>> change_batch(Function([x], x), {x: 0}).params[0].checked_type
    TensorType(shape=(16, 3), dtype='float32')
    """
    return rewrite_function(_BatchMutator(func, data, batch_size), func)


def ChangeBatch(data: Mapping[Var, int], batch_size: int = 16) -> FunctionPass[IRModule, Function]:
    """Change the batch size of parameters.

    The pass is not registered, because pipeline text cannot contain variables.
    """

    def change(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return change_batch(func, data, batch_size)

    return function_pass(change, opt_level=1, name="ChangeBatch", cacheable=False)


class _BatchMutator(ExprMutator, scopes_first=True):
    def __init__(self, func: Function, data: Mapping[Var, int], batch_size: int) -> None:
        super().__init__()
        self._params = frozenset(func.params)
        self._data = data
        self._batch_size = batch_size

    def visit_var(self, var: Var) -> Expr:
        if var in self._data:
            return Var(var.name_hint, self._type(var, self._data[var]), span=var.span)
        return var if var in self._params or var.type_annotation is None else Var(var.name_hint, span=var.span)

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        assert isinstance(new, Function), "an ExprMutator returns a function for a function"
        return new if new is fn else Function(new.params, new.body, None, fn.type_params, fn.attrs, span=fn.span)

    def _type(self, var: Var, axis: int) -> TensorType:
        ty = var.type_annotation
        if not isinstance(ty, TensorType) or not -len(ty.shape) <= axis < len(ty.shape):
            raise ValueError(f"%{var.name_hint} must be a tensor with an axis {axis}, got type {ty}")
        shape: list[Dim] = list(ty.shape)
        shape[axis] = self._batch_size
        return TensorType(shape, ty.dtype)
