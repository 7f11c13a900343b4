"""SimplifyFCTranspose: take the transposed weight of `nn.dense` as a parameter.

The counterpart of TVM's `simplify_fc_transpose.cc`. `relay.data_dep_optimization.simplify_fc_transpose` applies it, and
transposes the weights.
"""

from collections.abc import Collection, Iterable

from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.analysis.queries import transposed_weight
from apass.relay.ir.calls import tensor_type
from apass.relay.ir.expr import Call, Expr, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import TensorType
from apass.relay.ir.variables import free_vars
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["SimplifyFCTranspose", "simplify_fc_transpose"]


def simplify_fc_transpose(func: Function, target_weight_name: Iterable[str]) -> Function:
    """Return the function with transposed weights of `nn.dense` as parameters.

    `nn.dense(x, transpose(w))` becomes `nn.dense(x, w.T)`. The new variable `w.T` has the transposed type. The
    parameters of the result are its variables in order of first use, then the new ones. If nothing is replaced, the
    function is returned as it is.

    Parameters:
        func: the function, typed.
        target_weight_name: the names of the weights, as `analysis.search_fc_transpose` returns them.

    Raises:
        PassDefinitionError: if a transposed weight is not in `target_weight_name`.

    """
    remover = _TransposeRemover(set(func.params), set(target_weight_name))
    new = rewrite_function(remover, func)
    added = list(remover.transposed.values())
    if not added:
        return func
    params = [*free_vars(Function(added, new.body)), *added]
    return Function(params, new.body, func.ret_type, func.type_params, func.attrs, span=func.span)


@provide_pass("SimplifyFCTranspose")
def SimplifyFCTranspose(target_weight_name: list[str]) -> FunctionPass[IRModule, Function]:
    """Take transposed weights of nn.dense as parameters, named `<weight>.T`."""
    names = tuple(target_weight_name)

    def simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return simplify_fc_transpose(ensure_typed(func, mod), names)

    return function_pass(simplify, opt_level=4, name="SimplifyFCTranspose", required=["DeadCodeElimination"])


class _TransposeRemover(ExprMutator):
    def __init__(self, params: Collection[Var], names: Collection[str]) -> None:
        super().__init__()
        self._params = params
        self._names = names
        self.transposed: dict[Var, Var] = {}
        """The new variable for each weight."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        weight = transposed_weight(call)
        if weight not in self._params or weight is None or not isinstance(new, Call):
            return new
        if weight.name_hint not in self._names:
            names = ", ".join(sorted(self._names)) or "none"
            raise PassDefinitionError(
                f"weight %{weight.name_hint} is transposed for nn.dense, but target_weight_name has only: {names}; "
                "add the names that analysis.search_fc_transpose returns"
            )
        if weight not in self.transposed:
            ty = tensor_type(weight)
            self.transposed[weight] = Var(f"{weight.name_hint}.T", TensorType(ty.shape[::-1], ty.dtype))
        return Call(new.op, (new.args[0], self.transposed[weight]), new.attrs, new.type_args, span=new.span)
