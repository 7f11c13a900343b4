"""Registration of operators of data and a weight, such as convolutions."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Compute, Op
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import tensors

__all__ = ["define_with_weight"]

AttrsT = TypeVar("AttrsT", bound=Attrs)
Types: TypeAlias = Sequence[Type | None] | None


def define_with_weight(
    name: str,
    attrs_type: type[AttrsT],
    rank: int,
    description: str,
    relate: Callable[[str, int, TensorType, TensorType | None, AttrsT], Types],
    compute: Compute,
) -> Op:
    """Register an operator over `rank` spatial dimensions and return it.

    `relate(name, rank, data, weight, attrs)` is called when the type of the data is known. It returns the types of the
    arguments and of the result, as `Op.relation` does.
    """

    def relation(types: Sequence[Type], attrs: AttrsT) -> Types:
        data, weight, _ = tensors(name, types)
        return None if data is None else relate(name, rank, data, weight, attrs)

    return register_op(
        name,
        arguments=("data", "weight"),
        attrs_type=attrs_type,
        relation=relation,
        compute=compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        level=2,
        description=f"{description} over {rank} spatial dimension{'s' if rank > 1 else ''}.",
    )
